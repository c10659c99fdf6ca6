package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Goodput is what a request must keep to count as good. A zero bound is none.
type Goodput struct{ TTFT, TPOT, E2EL time.Duration }

// ParseGoodput reads bounds as `vllm bench serve --goodput` takes them:
// "ttft:200", "tpot:30", "e2el:5000", in milliseconds.
func ParseGoodput(pairs []string) (g Goodput, err error) {
	for _, pair := range pairs {
		name, text, _ := strings.Cut(pair, ":")
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || ms <= 0 {
			return g, fmt.Errorf("goodput %q: want NAME:MILLISECONDS", pair)
		}
		bound := time.Duration(ms * float64(time.Millisecond))
		switch name {
		case "ttft":
			g.TTFT = bound
		case "tpot":
			g.TPOT = bound
		case "e2el":
			g.E2EL = bound
		default:
			return g, fmt.Errorf("goodput %q: want one of ttft, tpot, e2el", pair)
		}
	}
	return g, nil
}

// Set reports whether there is any bound.
func (g Goodput) Set() bool { return g != Goodput{} }

func (g Goodput) meets(ttft, tpot, e2el time.Duration) bool {
	return within(ttft, g.TTFT) && within(tpot, g.TPOT) && within(e2el, g.E2EL)
}

func within(d, bound time.Duration) bool { return bound == 0 || d <= bound }

// Objective is a bound on one figure of a result.
type Objective struct {
	Field string
	Least bool // the bound is a lower one
	Bound float64
}

// ParseObjective reads FIELD<=NUMBER or FIELD>=NUMBER, where FIELD is a number
// of a result, such as p99_ttft_ms<=500 or goodput_share>=0.99.
func ParseObjective(text string) (Objective, error) {
	for _, sign := range []string{"<=", ">="} {
		field, number, ok := strings.Cut(text, sign)
		if !ok {
			continue
		}
		bound, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return Objective{}, fmt.Errorf("objective %q: %q is no number", text, number)
		}
		return Objective{Field: strings.TrimSpace(field), Least: sign == ">=", Bound: bound}, nil
	}
	return Objective{}, fmt.Errorf("objective %q: want FIELD<=NUMBER or FIELD>=NUMBER", text)
}

// Check returns an error that says what the result misses.
func (o Objective) Check(r *Result) error {
	value, ok := r.Number(o.Field)
	switch {
	case !ok:
		return fmt.Errorf("objective on %q: the result has no such number", o.Field)
	case o.Least && !(value >= o.Bound):
		return fmt.Errorf("%s is %.6g, want at least %.6g", o.Field, value, o.Bound)
	case !o.Least && !(value <= o.Bound):
		return fmt.Errorf("%s is %.6g, want at most %.6g", o.Field, value, o.Bound)
	}
	return nil
}
