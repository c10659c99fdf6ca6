package sim

import (
	"fmt"
	"math"
	"time"
)

// Profile holds the constants of the scheduling model. One engine step takes
//
//	StepBase + PerPrefillToken*prefilled + PerDecodeToken*decoded + PerContextToken*context
//
// divided by Speed, with a random factor of 1±Spread. The three first terms
// are the step model of BLIS (github.com/inference-sim/inference-sim), whose
// fitted figures for vLLM v0.8.4 the named profiles use.
type Profile struct {
	Name string

	// Delay and DelayPerToken pass between a request's arrival and the
	// moment at which the scheduler can see it: HTTP, tokenizing, IPC.
	Delay         time.Duration
	DelayPerToken time.Duration // per prompt token

	StepBase        time.Duration
	PerPrefillToken time.Duration // per prompt token computed in the step
	PerDecodeToken  time.Duration // per sequence that decodes in the step
	PerContextToken time.Duration // per token of KV cache that decoding reads

	Spread float64 // 0..1
	Speed  float64 // 1 when 0; 0.5 is half as fast
	Seed   uint64  // of the spread

	MaxSeqs       int // --max-num-seqs
	BatchTokens   int // --max-num-batched-tokens: prompt and decode tokens per step
	BlockSize     int // tokens per KV block
	Blocks        int // KV blocks (num_gpu_blocks)
	NoPrefixReuse bool
}

// Assumptions, where the fit says nothing: MaxSeqs, BatchTokens and BlockSize
// are vLLM's own defaults for servers of that version. PerContextToken is
// computed, not measured: the KV bytes of a token over the card's memory
// bandwidth (Llama 3.1 8B: 128 KiB, 70B over 4 cards: 80 KiB each; H100
// 3.35 TB/s, A100-80 2.04 TB/s). It is there because the fit was made at
// moderate contexts, where it is small. BLIS's third overhead figure, a delay
// of 2 to 12 ms that it adds to each output token outside the step, is left
// out: it moves all tokens alike and changes no schedule.
//
// How near that is: with 1,000 ShareGPT-like requests at once the first profile
// generates about 16,000 tokens a second; vLLM's own benchmark of the model
// gave 6,600 in 2025-05 (vllm-project/vllm pull request 18566), third parties
// report about 12,500 on one H100. The model knows no limits of the API server,
// so that it is too fast at saturation; read its results as ratios.
var profiles = []Profile{
	{
		Name:  "llama-3.1-8b-h100", // BLIS: alpha 232 us, 1.75 us; beta 5753, 17.25, 6.00 us; 29205 blocks
		Delay: 232 * time.Microsecond, DelayPerToken: 1752 * time.Nanosecond,
		StepBase: 5753 * time.Microsecond, PerPrefillToken: 17251 * time.Nanosecond, PerDecodeToken: 5999 * time.Nanosecond,
		PerContextToken: 39 * time.Nanosecond, Blocks: 29205,
	},
	{
		Name:  "llama-3.1-8b-a100", // BLIS, A100-80: alpha 7740 us, 2.31 us; beta 16442, 47.84, 18.21 us; 29205 blocks
		Delay: 7740 * time.Microsecond, DelayPerToken: 2309 * time.Nanosecond,
		StepBase: 16442 * time.Microsecond, PerPrefillToken: 47837 * time.Nanosecond, PerDecodeToken: 18206 * time.Nanosecond,
		PerContextToken: 64 * time.Nanosecond, Blocks: 29205,
	},
	{
		Name:  "llama-3.3-70b-h100x4", // BLIS, 4 cards: alpha 2597 us, 9.95 us; beta 12601, 76.42, 66.84 us; 128273 blocks
		Delay: 2597 * time.Microsecond, DelayPerToken: 9951 * time.Nanosecond,
		StepBase: 12601 * time.Microsecond, PerPrefillToken: 76423 * time.Nanosecond, PerDecodeToken: 66844 * time.Nanosecond,
		PerContextToken: 24 * time.Nanosecond, Blocks: 128273,
	},
}

// Profiles returns the names that NamedProfile knows.
func Profiles() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// NamedProfile returns a profile made from published figures.
func NamedProfile(name string) (Profile, error) {
	for _, p := range profiles {
		if p.Name == name {
			return p.withDefaults(), nil
		}
	}
	return Profile{}, fmt.Errorf("unknown profile %q, want one of %v", name, Profiles())
}

// FixedProfile is a replica whose latency does not depend on load: an idle one
// answers after ttft, and every running sequence gets a token each itl,
// ± spread. The first token takes at least one itl, and a request that finds
// the replica busy waits for the step under way.
func FixedProfile(ttft, itl time.Duration, spread float64) Profile {
	p := Profile{Name: "fixed", Delay: max(0, ttft-itl), StepBase: itl, Spread: spread, BatchTokens: math.MaxInt32}
	return p.withDefaults()
}

func (p Profile) withDefaults() Profile {
	setDefault(&p.Speed, 1)
	setDefault(&p.MaxSeqs, 256)
	setDefault(&p.BatchTokens, 2048)
	setDefault(&p.BlockSize, 16)
	setDefault(&p.Blocks, 29205)
	return p
}

// step returns the length of a step. It never is 0, so that simulated time
// moves on.
func (p *Profile) step(prefilled, decoded, context int, noise float64) time.Duration {
	d := p.StepBase + time.Duration(prefilled)*p.PerPrefillToken +
		time.Duration(decoded)*p.PerDecodeToken + time.Duration(context)*p.PerContextToken
	return max(1, time.Duration(float64(d)*(1+p.Spread*noise)/p.Speed))
}

func (p *Profile) delay(promptTokens int) time.Duration {
	d := p.Delay + time.Duration(promptTokens)*p.DelayPerToken
	return time.Duration(float64(d) / p.Speed)
}

// Check says what is out of range.
func (p *Profile) Check() error {
	switch {
	case p.Spread < 0 || p.Spread > 1:
		return fmt.Errorf("spread of %v: want 0 to 1", p.Spread)
	case p.Speed <= 0:
		return fmt.Errorf("speed of %v: want more than 0", p.Speed)
	case p.MaxSeqs < 1 || p.BatchTokens < 1 || p.BlockSize < 1 || p.Blocks < 1:
		return fmt.Errorf("sequences, batched tokens, block size and blocks: want at least 1")
	}
	return nil
}
