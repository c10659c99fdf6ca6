package devicecode

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is what a route needs of an HTTP request. It keeps nothing of Body.
type Request struct {
	ContentType string
	Body        []byte
	// Authorization is the header of that name, of which only the scheme is read.
	Authorization string
	Address       netip.Addr // the client's own, behind whatever proxies are trusted
}

// MaxBody is the longest body of which a route needs to see the end.
const MaxBody = 4 << 10

// GrantType is what standard clients send with each poll (RFC 8628, section 3.4).
const GrantType = "urn:ietf:params:oauth:grant-type:device_code"

// Code answers POST /v1/auth/device/code, with a body or without one. client_id
// names the program on the page, scope asks for a plan.
func (s *Service) Code(ctx context.Context, r Request) Response {
	fields, err := r.fields()
	if err != nil {
		return refuse(err)
	}
	asked, err := s.asked(r, fields)
	if err != nil {
		return refuse(err)
	}
	deviceCode, userCode, err := s.start(ctx, asked, r.Address)
	if err != nil {
		return refuse(err)
	}
	answer := codeAnswer{
		DeviceCode: deviceCode, UserCode: Show(userCode), VerificationURI: s.VerificationURI,
		ExpiresIn: seconds(s.CodeLife), Interval: seconds(s.Interval),
	}
	if r.isForm() { // RFC 8628's record; the service's own has five members
		answer.Complete = s.VerificationURI + "?user_code=" + url.QueryEscape(answer.UserCode)
	}
	return ok(answer)
}

// Token answers POST /v1/auth/device/token.
func (s *Service) Token(ctx context.Context, r Request) Response {
	fields, err := r.fields()
	if err != nil {
		return refuse(err)
	}
	standard := fields["grant_type"] != ""
	deviceCode := fields["device_code"]
	switch {
	case standard && fields["grant_type"] != GrantType:
		return refuse(&fault{"unsupported_grant_type", "grant_type must be " + GrantType})
	case standard && strings.HasPrefix(r.Authorization, "Basic "):
		return refuse(errBasic)
	case deviceCode == "":
		return refuse(&fault{"invalid_request", "device_code is missing"})
	case !s.polls.allow(network(r.Address), time.Now()):
		return refuse(&TooMany{Wait: time.Second})
	case !isDeviceCode(deviceCode):
		return refuse(errUnknown)
	}
	e, outcome, issued, err := s.poll(ctx, deviceCode, fields["client_id"])
	if err != nil {
		return refuse(err)
	}
	return answerPoll(e, outcome, issued, standard)
}

// asked is what the page will say of the client, who may write anything.
func (s *Service) asked(r Request, fields map[string]string) (Asked, error) {
	id := fields["client_id"]
	a := Asked{ClientID: id, Client: cmp.Or(id, "device login"), Scope: fields["scope"], Address: r.Address.Unmap().String(), KeyLife: s.KeyLife}
	if s.CheckName(a.Client) != nil {
		return a, &fault{"invalid_request", "client_id must be 1 to 64 bytes of printable text, and not a key"}
	}
	allowed := len(s.Plans) == 0 || slices.Contains(s.Plans, a.Scope)
	if a.Scope != "" && (!allowed || !s.PlanExists(a.Scope)) {
		return a, &fault{"invalid_scope", "scope must be empty or the name of one plan that may be had this way"}
	}
	return a, nil
}

// fields reads the parameters of either face.
func (r Request) fields() (map[string]string, error) {
	switch {
	case len(r.Body) > MaxBody:
		return nil, errTooLarge
	case r.isForm():
		return readForm(string(r.Body))
	case len(strings.TrimSpace(string(r.Body))) == 0:
		return nil, nil
	case r.mediaType() != "" && r.mediaType() != "application/json":
		return nil, errMediaType
	}
	return readJSON(r.Body)
}

func (r Request) isForm() bool { return r.mediaType() == "application/x-www-form-urlencoded" }

func (r Request) mediaType() string {
	media, _, _ := strings.Cut(r.ContentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

var (
	errTooLarge  = errors.New("body is too large")
	errMediaType = errors.New("content type is not known here")
	// golang.org/x/oauth2 tries both ways to say who a client is: it sends each
	// poll twice, the first with a header. That must not count as polling too
	// fast.
	errBasic = errors.New("clients have no password here")
)

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
