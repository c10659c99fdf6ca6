package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mete/bench/load"
	"mete/bench/sim"
)

// benchFlags are the flags of `mete bench`.
type benchFlags struct {
	url, keyFile, endpoint, model, label string
	header                               []string
	rate, rampTo, traceSpeed             float64
	rampOver, duration, timeout          time.Duration
	even, whole, ignoreEOS               bool
	concurrency, count                   int
	dataset, trace                       string
	lengths                              load.Lengths
	distinct                             int
	seed                                 uint64
	goodput, slo                         []string
	verify                               bool
	verifySeed                           uint64
	json, detailed, quiet                bool
	output                               string
}

const benchLong = `Sends requests to one server that speaks OpenAI's HTTP API, and measures time to
first token, inter-token latency of every event, time per output token and
end-to-end latency to p99.9.

With --rate, --ramp-to or --trace the loop is open: requests leave when they are
due, whatever the server does, and latencies count from the moment at which they
were meant to leave. Otherwise it is closed: --concurrency callers, each with one
request at a time.

The API key is read from METE_API_KEY, OPENAI_API_KEY or --key-file, which may
hold several, one a line, to be used in turn.`

const benchExample = `  mete bench --url http://127.0.0.1:8080/v1 --model mete --concurrency 32 --duration 30s
  mete bench --url http://gpu-7:8000/v1 --rate 20 --count 1000 --dataset sharegpt.json --output a.json
  mete bench --rate 5 --ramp-to 50 --ramp-over 2m --goodput ttft:300 --goodput tpot:40 --slo 'goodput_share>=0.99'
  mete bench report a.json b.json --html compare.html
  mete bench overhead --quick`

// benchCommand returns `mete bench` with its subcommands.
func benchCommand() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:     "bench --url URL",
		Short:   "Generate load and measure it",
		Long:    benchLong,
		Example: benchExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.targetFlags(cmd)
	f.loadFlags(cmd)
	f.resultFlags(cmd)
	cmd.AddCommand(benchReportCommand(), benchOverheadCommand(), benchScheduleCommand(), benchReplicasCommand())
	return cmd
}

func (f *benchFlags) targetFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "http://127.0.0.1:8080/v1", "base `URL` of the server")
	flags.StringVar(&f.keyFile, "key-file", "", "`FILE` with API keys, one a line")
	flags.StringArrayVar(&f.header, "header", nil, "further header `NAME: VALUE`; repeat for more")
	flags.StringVar(&f.endpoint, "endpoint", "/chat/completions", "path below the base URL, or /completions")
	flags.StringVar(&f.model, "model", "mete", "model that the requests name")
	flags.BoolVar(&f.whole, "no-stream", false, "ask for whole answers")
	flags.BoolVar(&f.ignoreEOS, "ignore-eos", true, "ask for answers of exactly the wanted length")
	flags.StringVar(&f.dataset, "dataset", "", "ShareGPT-style JSON `FILE` with conversations to take prompts and lengths from")
	flags.IntVar(&f.lengths.Prompt, "input-len", 256, "tokens of a made-up prompt, about")
	flags.IntVar(&f.lengths.Answer, "output-len", 128, "tokens of an answer; 0 with --dataset takes the conversation's")
	flags.Float64Var(&f.lengths.Spread, "len-spread", 0, "lengths vary by up to this share (0 to 1)")
	flags.IntVar(&f.lengths.Shared, "shared-prefix-len", 0, "tokens at their beginning that all made-up prompts share")
	flags.IntVar(&f.distinct, "distinct", 1000, "different requests, used over and over; also the most that are read from --dataset")
	flags.Uint64Var(&f.seed, "seed", 1, "of prompts and arrivals")
	flags.BoolVar(&f.verify, "verify", false, "the server ends in `mete sim` replicas with default texts: compare every byte of every answer")
	flags.Uint64Var(&f.verifySeed, "verify-seed", 0, "--seed of those replicas")
}

func (f *benchFlags) loadFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.concurrency, "concurrency", 0, "callers of a closed loop (1 when 0); of an open one the most in flight")
	flags.Float64Var(&f.rate, "rate", 0, "requests a second (open loop)")
	flags.BoolVar(&f.even, "even", false, "evenly spaced requests, in place of a Poisson process")
	flags.Float64Var(&f.rampTo, "ramp-to", 0, "rate to which --rate moves within --ramp-over")
	flags.DurationVar(&f.rampOver, "ramp-over", time.Minute, "length of the ramp")
	flags.StringVar(&f.trace, "trace", "", "JSON-lines `FILE` of timestamp (ms), input_length, output_length and perhaps hash_ids to replay")
	flags.Float64Var(&f.traceSpeed, "trace-speed", 1, "replay this many times as fast")
	flags.IntVar(&f.count, "count", 0, "requests to send")
	flags.DurationVar(&f.duration, "duration", 0, "how long to send; 30s when there is no --count and no --trace")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "of one request")
	cmd.MarkFlagsMutuallyExclusive("trace", "rate")
	cmd.MarkFlagsMutuallyExclusive("trace", "dataset")
}

func (f *benchFlags) resultFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.goodput, "goodput", nil, "what a good request keeps, in ms: ttft:200, tpot:30 or e2el:5000; repeat for more")
	flags.StringArrayVar(&f.slo, "slo", nil, "exit with an error unless this holds of the result, such as 'p99_ttft_ms<=500' or 'failed<=0'; repeat for more")
	flags.StringVar(&f.label, "label", "", "name of this run in reports")
	flags.StringVarP(&f.output, "output", "o", "", "write the JSON result to `FILE`, with the names of vllm bench serve")
	flags.BoolVar(&f.json, "json", false, "print the JSON result in place of the table")
	flags.BoolVar(&f.detailed, "detailed", false, "keep every request's figures in the JSON")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "no progress line")
}

func (f *benchFlags) run(cmd *cobra.Command) error {
	objectives, err := f.objectives()
	if err != nil {
		return err
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	session, err := load.Start(cmd.Context(), options)
	if err != nil {
		return err
	}
	if !f.quiet && isTerminal(os.Stderr) {
		session.Show(cmd.ErrOrStderr())
	}
	result := session.Wait()
	f.describe(result, &options)
	if err := f.write(cmd, result); err != nil {
		return err
	}
	for _, o := range objectives {
		err = errors.Join(err, o.Check(result))
	}
	if err == nil && result.Counters.Completed == 0 {
		err = errors.New("no request was answered")
	}
	return err
}

func (f *benchFlags) objectives() (all []load.Objective, err error) {
	for _, text := range f.slo {
		o, err := load.ParseObjective(text)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (f *benchFlags) options() (o load.Options, err error) {
	if o.Target, err = f.target(); err != nil {
		return o, err
	}
	if o.Goodput, err = load.ParseGoodput(f.goodput); err != nil {
		return o, err
	}
	o.Concurrency, o.Count, o.Duration, o.Timeout, o.Detailed = f.concurrency, f.count, f.duration, f.timeout, f.detailed
	if o.Count == 0 && o.Duration == 0 && f.trace == "" {
		o.Duration = 30 * time.Second
	}
	if err := f.schedule(&o); err != nil {
		return o, err
	}
	if o.Schedule == nil {
		o.Concurrency = max(1, o.Concurrency)
	}
	if f.verify {
		err = f.expect(&o)
	}
	return o, err
}

func (f *benchFlags) target() (load.Target, error) {
	target, err := load.ParseTarget(f.url)
	if err != nil {
		return target, err
	}
	for _, field := range f.header {
		name, value, ok := strings.Cut(field, ":")
		if !ok || strings.ContainsAny(field, "\r\n") {
			return target, fmt.Errorf("header %q: want NAME: VALUE", field)
		}
		target.Header = append(target.Header, [2]string{name, strings.TrimSpace(value)})
	}
	keys := os.Getenv("METE_API_KEY")
	if keys == "" {
		keys = os.Getenv("OPENAI_API_KEY")
	}
	if f.keyFile != "" {
		b, err := os.ReadFile(f.keyFile)
		if err != nil {
			return target, err
		}
		keys = string(b)
	}
	target.Keys = strings.Fields(keys)
	return target, nil
}

// schedule sets the requests and when they go out.
func (f *benchFlags) schedule(o *load.Options) (err error) {
	shape := load.Shape{Path: f.endpoint, Model: f.model, Whole: f.whole, IgnoreEOS: f.ignoreEOS}
	if f.trace != "" {
		var times []time.Duration
		if err := load.CheckRate(f.traceSpeed); err != nil {
			return err
		}
		o.Requests, times, err = load.Trace(f.trace, f.seed, shape)
		o.Schedule = load.Replay(times, f.traceSpeed)
		return err
	}
	if f.dataset != "" {
		o.Requests, err = load.Conversations(f.dataset, f.distinct, f.lengths.Answer, shape)
	} else {
		o.Requests, err = load.Synthetic(f.seed, f.distinct, f.lengths, shape)
	}
	if err != nil || f.rate == 0 {
		return err
	}
	arrivals := load.Random(f.seed)
	if f.even {
		arrivals = load.Even()
	}
	o.Schedule = load.Constant(arrivals, f.rate)
	if f.rampTo > 0 {
		o.Schedule = load.Ramp(arrivals, f.rate, f.rampTo, f.rampOver)
		err = load.CheckRate(f.rampTo)
	}
	return errors.Join(err, load.CheckRate(f.rate))
}

// expect makes every request know its answer.
func (f *benchFlags) expect(o *load.Options) (err error) {
	cfg := sim.Config{Seed: f.verifySeed, OutputSpread: 0.5, MaxModelLen: 4 << 20}
	for _, q := range o.Requests {
		if q.Expect, err = load.Expect(cfg, "/v1"+q.Path, q.Body); err != nil {
			return err
		}
	}
	return nil
}

func (f *benchFlags) describe(r *load.Result, o *load.Options) {
	r.Fields["label"], r.Fields["model_id"], r.Fields["tokenizer_id"] = f.label, f.model, nil
	if f.label == "" {
		r.Fields["label"] = o.Target.Host
	}
	r.Fields["max_concurrency"], r.Fields["burstiness"] = nil, 1.0
	if o.Concurrency > 0 {
		r.Fields["max_concurrency"] = o.Concurrency
	}
	r.Fields["request_rate"], r.Fields["timed_from"] = "inf", "sending"
	if o.Schedule != nil {
		r.Fields["timed_from"] = "intended sending"
	}
	if f.rate > 0 {
		r.Fields["request_rate"] = f.rate
	}
	if f.rampTo > 0 {
		r.Fields["ramp_up_strategy"], r.Fields["ramp_up_start_rps"], r.Fields["ramp_up_end_rps"] = "linear", f.rate, f.rampTo
	}
}

func (f *benchFlags) write(cmd *cobra.Command, r *load.Result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if f.output != "" {
		if err := writeFile(f.output, append(b, '\n')); err != nil {
			return err
		}
	}
	if f.json {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
	} else {
		_, err = fmt.Fprint(cmd.OutOrStdout(), r.Summary())
	}
	return err
}
