package load

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Show writes one line about the session to a terminal, over and over, until
// the session ends. It returns when the line has been wiped.
func (s *Session) Show(terminal io.Writer) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	before, at := s.Counters(), time.Now()
	for {
		select {
		case <-s.done:
			fmt.Fprint(terminal, "\r\x1b[K")
			return
		case now := <-tick.C:
			c := s.Counters()
			fmt.Fprintf(terminal, "\r\x1b[K%s", s.line(before, c, now.Sub(at)))
			before, at = c, now
		}
	}
}

func (s *Session) line(before, c Counters, since time.Duration) string {
	text := ""
	if share := s.share(c); share >= 0 {
		const width = 24
		full := min(width, int(share*width))
		text = "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + fmt.Sprintf("] %3.0f%%  ", share*100)
	}
	seconds := since.Seconds()
	return text + fmt.Sprintf("%d done  %d open  %.0f/s  %.0f tokens/s  ttft %.1f ms  failed %d",
		c.Completed, c.InFlight, float64(c.Completed-before.Completed)/seconds,
		float64(c.Tokens-before.Tokens)/seconds, s.rec.median(TTFT).Seconds()*1e3, c.Failed)
}

// share is how much of the run is over, 0 to 1, or -1 when nobody can know.
func (s *Session) share(c Counters) float64 {
	share := -1.0
	if n := s.options.Count; n > 0 {
		share = float64(c.Completed+c.Failed) / float64(n)
	}
	if d := s.options.Duration; d > 0 {
		share = max(share, float64(time.Since(s.began))/float64(d))
	}
	return min(share, 1)
}

func (r *recorder) median(m Metric) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.histograms[m].ValueAtPercentile(50))
}
