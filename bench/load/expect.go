package load

import (
	"bytes"
	"fmt"

	"mete/bench/sim"
)

// An Expectation is the body that a simulated replica sends for a request, with
// two gaps that cannot be known before: the id and the time of the answer. It
// never changes once it is made.
type Expectation struct {
	parts []part
}

// part is text that must come as it is, or one of the gaps.
type part struct {
	text []byte
	gap  int // 1 and up; 0 for text
}

const (
	gapID = iota + 1
	gapCreated
	gapCount
)

// Marks for the gaps, which no made-up text contains.
const (
	markID      = "mete-bench-placeholder-of-the-id"
	markCreated = 7777777777
)

// Expect makes the expectation of a request from the configuration that all the
// replicas share. Answers that call tools cannot be expected, because they
// derive further ids.
func Expect(cfg sim.Config, path string, body []byte) (*Expectation, error) {
	cfg.Created = markCreated
	rendered, err := sim.Render(cfg, path, markID, body)
	if err != nil {
		return nil, fmt.Errorf("expected answer: %w", err)
	}
	e := &Expectation{}
	created := fmt.Appendf(nil, "%d", int64(markCreated))
	for len(rendered) > 0 {
		at, gap, n := len(rendered), 0, 0
		if i := bytes.Index(rendered, []byte(markID)); i >= 0 {
			at, gap, n = i, gapID, len(markID)
		}
		if i := bytes.Index(rendered[:at], created); i >= 0 {
			at, gap, n = i, gapCreated, len(created)
		}
		e.parts = append(e.parts, part{text: rendered[:at]})
		if gap > 0 {
			e.parts = append(e.parts, part{gap: gap})
		}
		rendered = rendered[at+n:]
	}
	return e, nil
}

// matcher compares a body with an expectation while it comes in.
type matcher struct {
	want   *Expectation // nil expects nothing
	i      int          // the part that is being compared
	off    int          // within it
	gaps   [gapCount][]byte
	filled [gapCount]bool
	bad    bool
}

func (m *matcher) reset(want *Expectation) {
	*m = matcher{want: want, gaps: m.gaps}
	for i := range m.gaps {
		m.gaps[i] = m.gaps[i][:0]
	}
}

func (m *matcher) feed(p []byte) {
	if m.want == nil {
		return
	}
	for len(p) > 0 && !m.bad {
		if m.i == len(m.want.parts) {
			m.bad = true
			return
		}
		if part := &m.want.parts[m.i]; part.gap > 0 && !m.filled[part.gap] {
			p = m.fill(part.gap, p)
		} else {
			p = m.compare(m.text(part), p)
		}
	}
}

// whole reports whether all that was expected has come, and nothing else.
func (m *matcher) whole() bool {
	return m.want == nil || !m.bad && m.i == len(m.want.parts)
}

func (m *matcher) text(p *part) []byte {
	if p.gap > 0 {
		return m.gaps[p.gap]
	}
	return p.text
}

func (m *matcher) compare(want, p []byte) []byte {
	n := min(len(want)-m.off, len(p))
	if !bytes.Equal(want[m.off:m.off+n], p[:n]) {
		m.bad = true
	}
	if m.off += n; m.off == len(want) {
		m.i, m.off = m.i+1, 0
	}
	return p[n:]
}

// fill learns what stands in a gap: everything up to the byte that follows it.
func (m *matcher) fill(gap int, p []byte) []byte {
	end := m.want.parts[m.i+1].text[0]
	n := bytes.IndexByte(p, end)
	if n < 0 {
		n = len(p)
	} else {
		m.filled[gap] = true
		m.i++
	}
	if m.gaps[gap] = append(m.gaps[gap], p[:n]...); len(m.gaps[gap]) > 256 {
		m.bad = true
	}
	return p[n:]
}
