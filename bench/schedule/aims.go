package schedule

// aim is a row of the table: what is ours against something else.
type aim struct {
	id, title  string
	ours, base Side
	against    string
	figure     func(Metrics) float64
	unit       string
	bound      float64 // of the ratio, or of our value
	atLeast    bool    // rather than at most
	absolute   bool    // our value counts, not the ratio
	equalTail  bool    // the figure at the highest load whose p99 is the baseline's
}

func meanTTFT(m Metrics) float64   { return m.TTFT.Mean }
func tailTTFT(m Metrics) float64   { return m.TTFT.P99 }
func othersTail(m Metrics) float64 { return m.Others.P99 }
func throughput(m Metrics) float64 { return m.Tokens }
func hitRate(m Metrics) float64    { return m.HitRate }
func imbalance(m Metrics) float64  { return m.Imbalance }

var (
	ours  = Side{"multi-turn", Mete}
	robin = Side{"multi-turn", RoundRobin}
)

// aims are the rows, in order.
var aims = []aim{
	{id: "chat-ttft", title: "multi-turn, mean TTFT", ours: ours, base: robin, against: "round robin", figure: meanTTFT, unit: "ms", bound: 0.15},
	{id: "chat-throughput", title: "multi-turn, throughput at the same p99 TTFT", ours: ours, base: robin, against: "round robin", figure: throughput, unit: "tokens/s", bound: 2, atLeast: true, equalTail: true},
	{id: "chat-hash", title: "multi-turn, mean TTFT", ours: ours, base: Side{"multi-turn", PrefixOnly}, against: "prefix hash, load bounded", figure: meanTTFT, unit: "ms", bound: 0.8},
	{id: "chat-balance", title: "multi-turn, most loaded replica over the mean", ours: ours, base: Side{"multi-turn", PrefixOnly}, against: "prefix hash, load bounded", figure: imbalance, unit: "", bound: 1.25, absolute: true},
	{id: "tail", title: "heavy-tailed lengths, p99 TTFT", ours: Side{"heavy-tailed", Mete}, base: Side{"heavy-tailed", Least}, against: "least in flight", figure: tailTTFT, unit: "ms", bound: 0.7},
	{id: "slow", title: "one replica at half speed, p99 TTFT", ours: Side{"slow-replica", Mete}, base: Side{"slow-replica", Least}, against: "least in flight", figure: tailTTFT, unit: "ms", bound: 0.6},
	{id: "flood", title: "one caller floods, the others' p99 TTFT", ours: Side{"flood", Mete}, base: Side{"calm", Mete}, against: "no flood", figure: othersTail, unit: "ms", bound: 1.3},
	{id: "flood-fifo", title: "the same without a fair queue", ours: Side{"flood", Direct}, base: Side{"calm", Direct}, against: "no flood", figure: othersTail, unit: "ms"},
	{id: "flood-throughput", title: "one caller floods, throughput", ours: Side{"flood", Mete}, base: Side{"flood", Direct}, against: "FIFO", figure: throughput, unit: "tokens/s", bound: 0.97, atLeast: true},
	{id: "gateways", title: "four gateways, mean TTFT", ours: Side{"gateways", Mete}, base: ours, against: "one gateway", figure: meanTTFT, unit: "ms", bound: 1.2},
	{id: "churn", title: "a replica added and removed every 30 s, cache hit rate", ours: Side{"churn", Mete}, base: ours, against: "static pool", figure: hitRate, unit: "", bound: 0.85, atLeast: true},
}

// Row is an aim with what was measured.
type Row struct {
	ID       string  `json:"id"`
	Title    string  `json:"title"`
	Against  string  `json:"against"`
	Unit     string  `json:"unit,omitempty"`
	Aim      float64 `json:"aim,omitempty"` // 0 is none: shown for comparison
	AtLeast  bool    `json:"at_least,omitempty"`
	Absolute bool    `json:"absolute,omitempty"`
	Points   []Point `json:"points"` // the last decides
}

// Point is a row at one load.
type Point struct {
	Of       string  `json:"of"`   // whose saturation the load is 80 % of
	Load     float64 `json:"load"` // requests a second
	Ours     float64 `json:"ours"` // medians over the seeds
	Base     float64 `json:"base"`
	Ratio    float64 `json:"ratio"` // median of the seeds' ratios
	Least    float64 `json:"least"` // range of those
	Most     float64 `json:"most"`
	Unstable bool    `json:"unstable,omitempty"` // the baseline's queue grows: its times only tell the length of the run
}

// value is what the aim bounds.
func (r *Row) value(p Point) float64 {
	if r.Absolute {
		return p.Ours
	}
	return p.Ratio
}

// Reached reports whether the aim is reached where it counts.
func (r *Row) Reached() bool { return len(r.Points) > 0 && r.keeps(r.Aim) }

func (r *Row) keeps(bound float64) bool {
	v := r.value(r.Points[len(r.Points)-1])
	if r.AtLeast {
		return v >= bound
	}
	return v <= bound
}

// Measure works out one row.
func (l *Lab) measure(a aim) (Row, error) {
	row := Row{ID: a.id, Title: a.title, Against: a.against, Unit: a.unit, Aim: a.bound, AtLeast: a.atLeast, Absolute: a.absolute}
	if a.equalTail {
		p, err := l.equalTail(a)
		row.Points = []Point{p}
		return row, err
	}
	for _, reference := range []Side{a.base, a.ours} {
		most, err := l.Saturation(reference)
		if err != nil {
			return row, err
		}
		p, err := l.point(a, reference, partOfMax*most)
		if err != nil {
			return row, err
		}
		row.Points = append(row.Points, p)
	}
	return row, nil
}

func (l *Lab) point(a aim, reference Side, load float64) (Point, error) {
	mine, err := l.Runs(a.ours, load, l.o.Seeds)
	if err != nil {
		return Point{}, err
	}
	theirs, err := l.Runs(a.base, load, l.o.Seeds)
	if err != nil {
		return Point{}, err
	}
	p := Point{Of: reference.Policy, Load: load, Unstable: unstable(theirs)}
	if a.ours.Policy == a.base.Policy {
		p.Of = reference.Workload
	}
	p.compare(of(mine, a.figure), of(theirs, a.figure))
	return p, nil
}

func (p *Point) compare(mine, theirs []float64) {
	p.Ours, _, _ = Median(mine)
	p.Base, _, _ = Median(theirs)
	ratios := make([]float64, len(mine))
	for i := range mine {
		ratios[i] = mine[i] / max(theirs[i], 1e-9)
	}
	p.Ratio, p.Least, p.Most = Median(ratios)
}

func unstable(runs []Metrics) bool {
	n := 0
	for _, m := range runs {
		if !m.Stable {
			n++
		}
	}
	return 2*n > len(runs)
}

// equalTail compares throughputs: the baseline's at 80 % of its saturation, and
// ours at the highest load at which our p99 TTFT is no longer than the
// baseline's there.
func (l *Lab) equalTail(a aim) (Point, error) {
	most, err := l.Saturation(a.base)
	if err != nil {
		return Point{}, err
	}
	theirs, err := l.Runs(a.base, partOfMax*most, l.o.Seeds)
	if err != nil {
		return Point{}, err
	}
	tail, _, _ := Median(of(theirs, tailTTFT))
	load, err := highest(partOfMax*most, func(load float64) (bool, error) {
		runs, err := l.Runs(a.ours, load, l.o.Probes)
		own, _, _ := Median(of(runs, tailTTFT))
		return own <= tail && !unstable(runs), err
	})
	if err != nil {
		return Point{}, err
	}
	mine, err := l.Runs(a.ours, load, l.o.Seeds)
	p := Point{Of: a.ours.Policy + ", the same p99", Load: load}
	if err == nil {
		p.compare(of(mine, a.figure), of(theirs, a.figure))
	}
	return p, err
}
