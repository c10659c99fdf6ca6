package trace

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceHex  = "0af7651916cd43dd8448eb211c80319c"
	parentHex = "b7ad6b7169203331"
	valid     = "00-" + traceHex + "-" + parentHex + "-01"
)

func TestOnlyValidTraceparentsCount(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		want  string // as it is passed on; empty: refused
	}{
		"sampled":                            {valid, valid},
		"not sampled":                        {valid[:53] + "00", valid[:53] + "00"},
		"flags that are not known":           {valid[:53] + "f9", valid},
		"drawn at random":                    {valid[:53] + "03", valid[:53] + "03"},
		"a later version":                    {"cc" + valid[2:], valid},
		"a later version that says more":     {"cc" + valid[2:] + "-what-else", valid},
		"a later version that runs on":       {"cc" + valid[2:] + "x", ""},
		"version 00 that says more":          {valid + "-x", ""},
		"version ff":                         {"ff" + valid[2:], ""},
		"a trace id of zeros":                {"00-" + strings.Repeat("0", 32) + "-" + parentHex + "-01", ""},
		"a parent of zeros":                  {"00-" + traceHex + "-" + strings.Repeat("0", 16) + "-01", ""},
		"upper case":                         {strings.ToUpper(valid), ""},
		"too short":                          {valid[:54], ""},
		"another letter":                     {strings.Replace(valid, "a", "g", 1), ""},
		"another separator":                  {strings.Replace(valid, "-", "_", 3), ""},
		"nothing":                            {"", ""},
		"a line break where the flags begin": {valid[:53] + "\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Parse([]byte(c.value))
			if ok != (c.want != "") || ok != got.Known() || ok != got.Given {
				t.Fatalf("ok is %v: %+v", ok, got)
			}
			if text := string(got.AppendHeader(nil, SpanID{})); ok && text != c.want {
				t.Errorf("is passed on as %s", text)
			}
		})
	}
}

func TestTracestateIsBounded(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7": true, "a=b\r\nX: 1": false, "a=\xff": false,
		"a=" + strings.Repeat("b", 510): true, "a=" + strings.Repeat("b", 511): false,
	} {
		if ValidState([]byte(value)) != want {
			t.Errorf("%q: want %v", value, want)
		}
	}
}

// FuzzParse: what is passed on is always a valid header, of the same trace.
func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte("cc" + valid[2:] + "-more"))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, ok := Parse(value)
		if !ok {
			return
		}
		passed := c.AppendHeader(nil, SpanID{})
		again, ok := Parse(passed)
		if !ok || again != c || len(passed) != headerLength || string(passed[2:52]) != string(value[2:52]) {
			t.Errorf("%q became %q", value, passed)
		}
	})
}

func TestSamplingFollowsTheCallerOrTheRatio(t *testing.T) {
	on := func(sample float64) *Tracer { return &Tracer{bound: uint64(sample * (1 << 63))} }
	unsampled := valid[:53] + "00"
	for name, c := range map[string]struct {
		tracer      *Tracer
		traceparent string
		least, most int // of 10,000
	}{
		"one in ten":                             {on(0.1), "", 800, 1200},
		"none":                                   {on(0), "", 0, 0},
		"all":                                    {on(1), "", 10000, 10000},
		"the caller's trace is sampled":          {on(0), valid, 10000, 10000},
		"the caller's trace is not sampled":      {on(1), unsampled, 0, 0},
		"a traceparent that is not valid":        {on(1), "nonsense", 10000, 10000},
		"tracing is off":                         {nil, valid, 0, 0},
		"tracing is off and nobody asked for it": {nil, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sampled := 0
			for range 10000 {
				x := c.tracer.Begin([]byte(c.traceparent))
				if x.Sampled != (x.Span != SpanID{}) {
					t.Fatalf("%+v", x)
				}
				if x.Sampled {
					sampled++
				}
				if _, ok := Parse(x.AppendHeader(nil, x.Span)); c.tracer != nil && !ok {
					t.Fatalf("%s is not valid", x.AppendHeader(nil, x.Span))
				}
			}
			if sampled < c.least || sampled > c.most {
				t.Errorf("%d of 10000 are sampled, want %d to %d", sampled, c.least, c.most)
			}
		})
	}
}

func TestUnsampledAllocatesNothing(t *testing.T) {
	header := []byte(valid[:53] + "00")
	buf := make([]byte, 0, 64)
	for name, c := range map[string]struct {
		tracer *Tracer
		header []byte
	}{
		"off": {nil, nil}, "off, with the caller's": {nil, header}, "on": {&Tracer{}, nil}, "on, with the caller's": {&Tracer{}, header},
	} {
		if n := testing.AllocsPerRun(100, func() {
			x := c.tracer.Begin(c.header)
			buf = x.AppendHeader(buf[:0], SpanID{})
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkBegin(b *testing.B) {
	for name, t := range map[string]*Tracer{"off": nil, "unsampled": {}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				t.Begin(nil)
			}
		})
	}
}
