package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Workload is a kind of traffic, and of pool under it.
type Workload struct {
	Name  string
	Title string

	prompt, output lengths // of requests that know nothing of each other
	chat           *chat   // in place of prompt: chats of several turns

	callers  int           // who share the requests evenly; 0 is one
	flood    float64       // the first caller sends so many times its share, on top of the others' load
	gateways int           // 0 is one
	slow     float64       // speed of the first replica; 0 is that of the others
	churn    time.Duration // a replica is added, and taken away again, each after so long; 0 is never

	guess float64 // requests a second and replica at which the search for saturation begins
}

// chat describes sessions: a system prompt that all sessions of an application
// share, and turns that each send back all that was said before.
type chat struct {
	apps   int     // applications, the k-th used as 1/k
	system lengths // of the application's prompt, tools included
	user   lengths // of what a person says
	turns  float64 // mean, geometric
	think  time.Duration
}

// azure is the conversation trace of Splitwise (Patel et al., ISCA 2024): median
// prompt 1020 tokens, median output 129. ServeGen (Xiang et al., 2025) fits
// production prompts with a lognormal body and a Pareto tail, and outputs with
// an exponential; the deviation, the tail's share and its exponent are ours.
var (
	azurePrompt = withTail(lognormal(1020, 1, 16000), 0.03, 12000, 1.1, 100000)
	azureOutput = exponential(129/0.693, 2048)
)

// chats is made after llm-d's measurement of shared prefixes: 150 groups whose
// system prompts have 6,000 tokens. Here the groups are not used evenly, and
// chats have several turns, as in KubeAI's measurement. The answers have the
// length of Splitwise's conversations; turns, pauses and what a person says are
// ours.
var chats = &chat{
	apps: 150, system: lognormal(6000, 0.3, 16000), user: lognormal(150, 1, 4000),
	turns: 6, think: 15 * time.Second,
}

// Workloads are all kinds, in the order in which they are shown.
func Workloads() []Workload {
	multi := Workload{Name: "multi-turn", Title: "multi-turn chats under shared system prompts", chat: chats, output: azureOutput, guess: 8}
	with := func(w Workload, name, title string, change func(*Workload)) Workload {
		w.Name, w.Title = name, title
		change(&w)
		return w
	}
	uniform := Workload{Name: "uniform", Title: "prompts and answers of like length, nothing shared", prompt: between(256, 768), output: between(64, 192), guess: 60}
	calm := Workload{Name: "calm", Title: "ten callers alike", prompt: lognormal(1020, 0.5, 8000), output: azureOutput, callers: 10, guess: 25}
	return []Workload{
		uniform,
		{Name: "heavy-tailed", Title: "heavy-tailed lengths, nothing shared", prompt: azurePrompt, output: azureOutput, guess: 8},
		multi,
		with(uniform, "slow-replica", "one replica at half speed", func(w *Workload) { w.slow = 0.5 }),
		calm,
		with(calm, "flood", "ten callers, one of them sending ten times its share", func(w *Workload) { w.flood = 10 }),
		with(multi, "gateways", "multi-turn chats through four gateways", func(w *Workload) { w.gateways = 4 }),
		with(multi, "churn", "multi-turn chats, a replica added and removed every 30 s", func(w *Workload) { w.churn = 30 * time.Second }),
	}
}

// WorkloadNamed finds a workload.
func WorkloadNamed(name string) (Workload, error) {
	var names []string
	for _, w := range Workloads() {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return Workload{}, fmt.Errorf("unknown workload %q, want one of %s", name, strings.Join(names, ", "))
}
