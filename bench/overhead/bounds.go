package overhead

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Bounds are the worst ratios of the gateway that are accepted, by the id of
// the figure.
type Bounds map[string]float64

// ReadBounds reads a JSON object of ratios.
func ReadBounds(path string) (Bounds, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var bounds Bounds
	if err := json.Unmarshal(b, &bounds); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for id := range bounds {
		if !known(id) {
			return nil, fmt.Errorf("%s: there is no figure %q", path, id)
		}
	}
	return bounds, nil
}

func known(id string) bool {
	for _, l := range new(Result).lines() {
		if l.id == id {
			return true
		}
	}
	return false
}

// Check returns an error for each figure whose median ratio is worse than its
// bound. A bound on a figure that was not measured is passed over; that none was
// measured is an error.
func (b Bounds) Check(r *Result) error {
	var broken []error
	measured := 0
	for _, f := range r.Figures {
		most, bounded := b[f.ID]
		ratios := f.Ratios[gate]
		if !bounded || len(ratios) == 0 {
			continue
		}
		measured++
		if median, least, worst := Median(ratios); !(median <= most) {
			broken = append(broken, fmt.Errorf("%s: %.2f times %s (%.2f to %.2f), more than the %.2f that is accepted", f.Title, median, f.Against, least, worst, most))
		}
	}
	if measured == 0 {
		return errors.New("none of the bounded figures was measured")
	}
	return errors.Join(broken...)
}
