package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
)

const (
	topEvery    = time.Second     // between two looks
	topPatience = 3 * time.Second // for one
	topWidth    = 100             // columns of a frame that is printed once
)

// topCommand is `mete top`.
func topCommand() *cobra.Command {
	var admin string
	var once bool
	var width int
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch pools and replicas in the terminal",
		Long: `Watch the pools and replicas of a running gateway, through its admin listener.

STATE   ready; warming: in its slow start; open: its breaker lets nothing
        through; refused, unhealthy, wrong_model, maintenance, suspect: held out
FLIGHT  requests of this gateway there       QUEUE  requests waiting there, of everybody
KV      use of its KV cache                  SHARE  of this gateway's attempts, of late
REQ/S   attempts a second                    FAULTS attempts that were its fault, in all

A number that a replica has not told is shown as -. Keys: q quits, the arrows and
the page keys scroll.`,
		Example: "  mete top\n  mete top --once --admin http://10.0.0.2:9090",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			looker, err := newLooker(admin)
			if err != nil {
				return err
			}
			defer looker.client.CloseIdleConnections()
			if once {
				return topOnce(cmd.Context(), cmd.OutOrStdout(), looker, width)
			}
			return topLive(cmd.Context(), looker)
		},
	}
	cmd.Flags().StringVar(&admin, "admin", "http://127.0.0.1:9090", "address of the admin listener")
	cmd.Flags().BoolVar(&once, "once", false, "print one frame of plain text after a second, and end")
	cmd.Flags().IntVar(&width, "width", topWidth, "columns of that frame")
	return cmd
}

// look is what the gateway said at one moment.
type look struct {
	poolsView
	at       time.Time
	requests float64 // answered so far
	failed   float64 // of these, with a status of 500 or more
	tokens   float64 // of answers, so far
	attempts float64 // so far
	inFlight float64
}

// looker asks a gateway's admin listener.
type looker struct {
	base   string
	client *http.Client
}

func newLooker(base string) (*looker, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the admin address must be a URL such as http://127.0.0.1:9090")
	}
	return &looker{strings.TrimRight(base, "/"), &http.Client{Transport: &http.Transport{}, Timeout: topPatience}}, nil
}

func (l *looker) look(ctx context.Context) (look, error) {
	v := look{at: time.Now()}
	err := l.get(ctx, "/debug/pools", func(page io.Reader) error { return json.NewDecoder(page).Decode(&v.poolsView) })
	if err != nil {
		return v, err
	}
	return v, l.get(ctx, "/metrics", v.readMetrics)
}

func (l *looker) get(ctx context.Context, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.base+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := l.client.Do(request)
	if err != nil {
		return fmt.Errorf("no answer from the admin listener: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s answered with status %d: is this the admin listener of a gateway?", l.base, path, response.StatusCode)
	}
	if err := read(response.Body); err != nil {
		return fmt.Errorf("%s%s: %w", l.base, path, err)
	}
	return nil
}

func (v *look) readMetrics(page io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return err
	}
	v.requests = total(families["mete_requests_total"], "", "")
	v.failed = total(families["mete_requests_total"], "status", "5")
	v.tokens = total(families["mete_tokens_total"], "kind", "completion")
	v.attempts = total(families["mete_attempts_total"], "", "")
	v.inFlight = total(families["mete_in_flight"], "", "")
	return nil
}

// total adds up the series whose label begins with the prefix, or all.
func total(family *dto.MetricFamily, label, prefix string) (sum float64) {
	for _, m := range family.GetMetric() {
		is := label == ""
		for _, l := range m.GetLabel() {
			is = is || l.GetName() == label && strings.HasPrefix(l.GetValue(), prefix)
		}
		if is {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// topOnce prints one frame without colours.
func topOnce(ctx context.Context, out io.Writer, l *looker, width int) error {
	before, err := l.look(ctx)
	if err != nil {
		return err
	}
	select { // rates need two looks
	case <-time.After(topEvery):
	case <-ctx.Done():
		return ctx.Err()
	}
	now, err := l.look(ctx)
	if err != nil {
		return err
	}
	for _, line := range (frame{now, before, l.base, width}).lines() {
		if _, err := fmt.Fprintln(out, strings.TrimRight(ansi.Strip(line), " ")); err != nil {
			return err
		}
	}
	return nil
}

func topLive(ctx context.Context, l *looker, options ...tea.ProgramOption) error {
	options = append([]tea.ProgramOption{tea.WithContext(ctx)}, options...)
	end, err := tea.NewProgram(&top{ctx: ctx, looker: l, width: topWidth}, options...).Run()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, tea.ErrInterrupted) {
		err = nil // asked to stop
	}
	if t, ok := end.(*top); ok && err == nil && t.now.at.IsZero() && t.err != nil {
		return t.err // it never worked: say so where it stays readable
	}
	return err
}
