package console

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

var (
	errForged = errors.New("form is not ours")
	errNoPage = errors.New("page is not there")
)

// problem is an error page.
type problem struct {
	Status         int
	Heading, Text  string
	Retry          string
	retryInSeconds int
}

// fail answers with the page for an error.
func (v *visit) fail(err error) {
	p := problemOf(err)
	if p.Status >= 500 {
		v.Log.Error().Err(err).Str("path", v.r.URL.Path).Msg("console")
	}
	if p.retryInSeconds > 0 {
		v.w.Header().Set("Retry-After", strconv.Itoa(p.retryInSeconds))
	}
	_ = v.views.render(v.w, p.Status, "problem", v.frame(p.Heading, "", p))
}

func problemOf(err error) problem {
	var many *TooMany
	var invalid *Invalid
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &many):
		return problem{
			Status: http.StatusTooManyRequests, Heading: "Too many attempts",
			Text:           fmt.Sprintf("Nothing was looked at. Try again in %s.", inWords(many.Wait)),
			retryInSeconds: int(math.Ceil(many.Wait.Seconds())),
		}
	case errors.Is(err, errForged):
		return problem{Status: http.StatusForbidden, Heading: "That did not come from this page", Text: "Nothing was changed. Open the page again and repeat what you did there."}
	case errors.Is(err, ErrNotFound), errors.Is(err, errNoPage), errors.Is(err, errNoPerson):
		return problem{Status: http.StatusNotFound, Heading: "There is nothing here", Text: "What you are looking for does not exist, or not any more."}
	case errors.Is(err, errOwnerShape), errors.Is(err, errOtherWay), errors.Is(err, errDisabled):
		return problem{Status: http.StatusForbidden, Heading: "You cannot sign in", Text: "It did not work: " + err.Error() + ". Ask an admin."}
	case errors.Is(err, ErrNotAllowed):
		return problem{Status: http.StatusForbidden, Heading: "Not allowed", Text: "You may not have a key of that plan. Ask an admin."}
	case errors.As(err, &invalid):
		return problem{Status: http.StatusBadRequest, Heading: "That cannot be", Text: "The " + invalid.Param + " " + invalid.Reason + "."}
	case errors.As(err, &large):
		return problem{Status: http.StatusRequestEntityTooLarge, Heading: "Too large", Text: "That form is larger than any of ours."}
	}
	return problem{Status: http.StatusServiceUnavailable, Heading: "The service cannot say at the moment", Text: "Nothing is known to be lost. Try again in a few seconds.", retryInSeconds: 5}
}

// inWords is a time to wait: "40 seconds", "9 minutes".
func inWords(d time.Duration) string {
	switch {
	case d <= time.Second:
		return "a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(math.Ceil(d.Seconds())))
	case d%time.Hour == 0 && d < 48*time.Hour:
		return plural(int(d/time.Hour), "hour")
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(math.Ceil(d.Minutes())))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(math.Round(d.Hours())))
	}
	return fmt.Sprintf("%d days", int(math.Round(d.Hours()/24)))
}
