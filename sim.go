package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mete/bench/sim"
)

// simFlags are the flags of `mete sim` that need work before they are a
// sim.Config.
type simFlags struct {
	cfg                sim.Config
	profile            string
	ttft, itl          time.Duration
	spread, speed      float64
	maxSeqs, blocks    int
	batchTokens, block int
	noReuse            bool
	apiKeyFile, fault  string
	errorShape         string
}

const simLong = `Serves the endpoints of a vLLM server without a GPU: the same wire format, load
figures, queueing and ways to fail, with made-up text.

Without --profile, --ttft or --itl an answer is there at once. --profile takes
its timing from published vLLM figures (%s);
--ttft and --itl make a replica whose latency does not depend on its load.

Faults can be asked for by one request, with the header x-sim-fault or the body
member "sim_fault", or for all of them with --fault or POST /sim/fault:

  cut; at=123; how=rst         connection reset after 123 bytes of the body
  cut; at=40; of=response      closed after 40 bytes of the response, head included
  hang; where=headers          or body, or event with after=N; for=2s goes on
  status; code=503; shape=bare shapes: nested flat string bare empty plain
  error; after=2               an error event after 2 events of a 200, then [DONE]
  queue_full; as=event         the refusal of a full queue, as status or as event
  abort; after=2               finish_reason "abort"
  end; after=4                 a clean end without [DONE]
  slow; factor=5               slower by this factor
  refuse; for=2s               listener closed (not per request)
  dead; for=2s                 /health answers 503 (not per request)`

const simExample = `  mete sim --listen 127.0.0.1:8000 --model general
  mete sim --profile llama-3.1-8b-h100 --max-num-seqs 64
  mete sim --ttft 200ms --itl 20ms --spread 0.2
  curl -d 'hang; where=event; after=3; times=1' http://127.0.0.1:8000/sim/fault`

// simCommand returns `mete sim`: a simulated vLLM replica in the foreground.
func simCommand() *cobra.Command {
	f := &simFlags{}
	cmd := &cobra.Command{
		Use:     "sim",
		Short:   "Run a simulated vLLM replica",
		Long:    fmt.Sprintf(simLong, strings.Join(sim.Profiles(), ", ")),
		Example: simExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.serverFlags(cmd)
	f.timingFlags(cmd)
	return cmd
}

func (f *simFlags) serverFlags(cmd *cobra.Command) {
	flags, c := cmd.Flags(), &f.cfg
	flags.StringVar(&c.Addr, "listen", "127.0.0.1:8000", "address to listen on; port 0 takes a free one")
	flags.StringArrayVar(&c.Models, "model", []string{"sim"}, "served model name; repeat for more, answers carry the first")
	flags.StringArrayVar(&c.LoRA, "lora", nil, "name of a LoRA adapter; repeat for more")
	flags.IntVar(&c.MaxModelLen, "max-model-len", 32768, "context window: prompt and output, in tokens")
	flags.Uint64Var(&c.Seed, "seed", 0, "seed of texts and latencies")
	flags.IntVar(&c.OutputTokens, "output-tokens", 64, "mean length of an answer that max_tokens does not end")
	flags.Float64Var(&c.OutputSpread, "output-spread", 0.5, "answers are longer or shorter by up to this share (0 to 1)")
	flags.IntVar(&c.MaxQueued, "max-num-queued-reqs", 0, "sequences in flight above which requests are refused; 0 is no limit")
	flags.BoolVar(&c.RefuseEvent, "refuse-event", false, "refuse streams with an error event in a 200 instead of a 503")
	flags.StringVar(&f.apiKeyFile, "api-key-file", "", "file with the key that /v1 wants")
	flags.DurationVar(&c.KeepAlive, "keep-alive", 5*time.Second, "idle connections are closed after this time; negative never")
	flags.StringVar(&f.errorShape, "error-shape", "nested", "shape of errors: nested, flat, string, bare, empty, plain")
	flags.StringVar(&c.Reasoning, "reasoning-field", "reasoning", "delta field of thinking: reasoning, reasoning_content or both")
	flags.BoolVar(&c.Details, "prompt-tokens-details", false, "report cached prompt tokens in usage")
	flags.BoolVar(&c.OldMetrics, "old-metrics", false, "metrics of vLLM before 2025-11: gpu_cache_usage_perc")
	flags.StringVar(&f.fault, "fault", "", "fault in force from the start")
}

func (f *simFlags) timingFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "", "timing from published figures: "+strings.Join(sim.Profiles(), ", "))
	flags.DurationVar(&f.ttft, "ttft", 0, "time to first token of an idle replica")
	flags.DurationVar(&f.itl, "itl", 0, "inter-token latency")
	flags.Float64Var(&f.spread, "spread", 0, "step times vary by up to this share (0 to 1)")
	flags.Float64Var(&f.speed, "speed", 1, "0.5 is a replica at half speed")
	flags.IntVar(&f.cfg.Engines, "data-parallel-size", 1, "engines behind this server, each with its own queue and cache")
	flags.IntVar(&f.maxSeqs, "max-num-seqs", 256, "sequences that run at once; more wait")
	flags.IntVar(&f.batchTokens, "max-num-batched-tokens", 0, "tokens per engine step (chunked prefill); 0 is the profile's")
	flags.IntVar(&f.blocks, "num-gpu-blocks", 0, "KV cache blocks; 0 is the profile's")
	flags.IntVar(&f.block, "block-size", 16, "tokens per KV cache block")
	flags.BoolVar(&f.noReuse, "no-enable-prefix-caching", false, "compute every prompt from its beginning")
	cmd.MarkFlagsMutuallyExclusive("profile", "ttft")
	cmd.MarkFlagsMutuallyExclusive("profile", "itl")
}

func (f *simFlags) run(cmd *cobra.Command) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	replica, err := sim.Start(cfg)
	if err != nil {
		return err
	}
	if err := setFault(replica, f.fault); err != nil {
		return errors.Join(err, replica.Close())
	}
	fmt.Fprintln(cmd.OutOrStdout(), replica.URL())
	<-ctx.Done()
	stop() // a second signal ends the process at once
	return replica.Close()
}

func setFault(replica *sim.Replica, text string) error {
	fault, err := sim.ParseFault(text)
	if err != nil {
		return err
	}
	return replica.SetFault(fault)
}

func (f *simFlags) config() (sim.Config, error) {
	cfg := f.cfg
	var err error
	if cfg.ErrorShape, err = sim.ParseShape(f.errorShape); err != nil {
		return cfg, err
	}
	if f.apiKeyFile != "" {
		key, err := os.ReadFile(f.apiKeyFile)
		if err != nil {
			return cfg, err
		}
		cfg.APIKey = strings.TrimSpace(string(key))
	}
	cfg.Profile, err = f.timing()
	return cfg, err
}

// timing returns nil for instant mode.
func (f *simFlags) timing() (*sim.Profile, error) {
	var p sim.Profile
	var err error
	switch {
	case f.profile != "":
		if p, err = sim.NamedProfile(f.profile); err != nil {
			return nil, err
		}
	case f.ttft > 0 || f.itl > 0:
		p = sim.FixedProfile(f.ttft, f.itl, 0)
	default:
		return nil, nil
	}
	p.Spread, p.Speed, p.MaxSeqs, p.BlockSize, p.NoPrefixReuse = f.spread, f.speed, f.maxSeqs, f.block, f.noReuse
	if f.batchTokens > 0 {
		p.BatchTokens = f.batchTokens
	}
	if f.blocks > 0 {
		p.Blocks = f.blocks
	}
	return &p, p.Check()
}
