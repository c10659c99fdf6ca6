package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"mete/bench/report"
	"mete/bench/schedule"
)

// scheduleFlags are the flags of `mete bench schedule`.
type scheduleFlags struct {
	workload            string
	policies, only      []string
	seeds, replicas     int
	load                float64
	duration            time.Duration
	profile, check, out string
	quick, json, real   bool
}

const scheduleLong = `Measures what the choice of replica is worth, in simulated time: simulated vLLM
engines, the gateway's own balancer in front of them, and what others use.
docs/scheduling.md says what the model is and how to read the table.

Without --workload every row of the table is measured, in a few minutes. One row
alone: --only chat-hash. One workload under some policies, which is quick and
good for tuning: --workload multi-turn --policy mete --load 90, where the load is
in requests a second for the whole pool; without --load it is 80 % of what the
policy can bear.`

const scheduleExample = `  mete bench schedule --quick
  mete bench schedule --only chat-ttft,chat-hash --seeds 3
  mete bench schedule --workload multi-turn --policy mete,prefix-hash --load 90 --seeds 1
  mete bench schedule --workload uniform --policy mete --replicas 64 --load 2000 --duration 1h --seeds 1
  mete bench schedule --check bench/schedule-bounds.json --out bench/results`

func benchScheduleCommand() *cobra.Command {
	f := &scheduleFlags{}
	cmd := &cobra.Command{
		Use:     "schedule",
		Short:   "Compare choices of replica in simulated time",
		Long:    scheduleLong,
		Example: scheduleExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	var names []string
	for _, w := range schedule.Workloads() {
		names = append(names, w.Name)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.workload, "workload", "", "simulate this alone: "+strings.Join(names, ", "))
	flags.StringSliceVar(&f.policies, "policy", nil, "with these policies (all): "+strings.Join(schedule.Policies(), ", "))
	flags.Float64Var(&f.load, "load", 0, "requests a second; 0 is 80 % of the policy's saturation")
	flags.StringSliceVar(&f.only, "only", nil, "these rows of the table alone, by id")
	flags.IntVar(&f.seeds, "seeds", 0, "runs with different seeds (5, or 3 with --quick)")
	flags.IntVar(&f.replicas, "replicas", 0, "in the pool (8)")
	flags.DurationVar(&f.duration, "duration", 0, "simulated time that is counted (90s, or 40s with --quick)")
	flags.StringVar(&f.profile, "profile", "", "of the simulated replicas (llama-3.1-8b-h100)")
	flags.BoolVar(&f.quick, "quick", false, "shorter, without curves")
	flags.StringVar(&f.check, "check", "", "exit with an error where a row is worse than in this `FILE`")
	flags.StringVar(&f.out, "out", "", "write schedule.json, schedule.md and pictures into this `DIR`")
	flags.BoolVar(&f.real, "real", false, "send scaled-down workloads through a real gateway and real bench/sim servers, beside their simulation (2 minutes)")
	flags.BoolVar(&f.json, "json", false, "print JSON in place of the table")
	return cmd
}

func (f *scheduleFlags) run(cmd *cobra.Command) error {
	var bounds schedule.Bounds
	if f.check != "" {
		var err error
		if bounds, err = schedule.ReadBounds(f.check); err != nil {
			return err
		}
	}
	cmd.SilenceUsage = true
	if f.real {
		return f.compareReal(cmd)
	}
	lab, err := schedule.NewLab(cmd.Context(), f.options(cmd))
	if err != nil {
		return err
	}
	if f.workload != "" {
		return f.one(cmd, lab)
	}
	result, err := lab.Compare(f.only)
	if err != nil {
		return err
	}
	if err := f.write(cmd, result); err != nil {
		return err
	}
	if bounds != nil {
		return bounds.Check(result)
	}
	return nil
}

func (f *scheduleFlags) options(cmd *cobra.Command) schedule.Options {
	o := schedule.Standard()
	if f.quick {
		o = schedule.Quick()
	}
	if f.seeds > 0 {
		o.Seeds = f.seeds
		o.Probes = min(o.Probes, f.seeds)
	}
	if f.replicas > 0 {
		o.Replicas = f.replicas
	}
	if f.duration > 0 {
		o.Window = f.duration
	}
	if f.profile != "" {
		o.Profile = f.profile
	}
	if isTerminal(os.Stderr) {
		o.Report = func(step string) { fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s", step) }
	}
	return o
}

// one simulates a workload under some policies.
func (f *scheduleFlags) one(cmd *cobra.Command, lab *schedule.Lab) error {
	policies := f.policies
	if len(policies) == 0 {
		policies = schedule.Policies()
	}
	results := map[string][]schedule.Metrics{}
	for _, p := range policies {
		side, load := schedule.Side{Workload: f.workload, Policy: p}, f.load
		if load == 0 {
			most, err := lab.Saturation(side)
			if err != nil {
				return err
			}
			load = 0.8 * most
		}
		runs, err := lab.Runs(side, load, max(f.seeds, 1))
		if err != nil {
			return err
		}
		results[p] = runs
	}
	clearProgress(cmd)
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(results)
	}
	return printRuns(cmd, policies, results)
}

func printRuns(cmd *cobra.Command, policies []string, results map[string][]schedule.Metrics) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tload/s\tmean ttft\tp50\tp99\tothers' p99\ttokens/s\thits\tmax/mean\tjain\tunfinished\trefused\tsteady\t")
	for _, p := range policies {
		for _, m := range results[p] {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f\t%.3f\t%.2f\t%.3f\t%d\t%d\t%v\t\n", p, m.Load, m.TTFT.Mean, m.TTFT.P50, m.TTFT.P99,
				m.Others.P99, m.Tokens, m.HitRate, m.Imbalance, m.Jain, m.Unfinished, m.Refused, m.Stable)
		}
	}
	return w.Flush()
}

func clearProgress(cmd *cobra.Command) {
	if isTerminal(os.Stderr) {
		fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
}

func (f *scheduleFlags) write(cmd *cobra.Command, r *schedule.Result) error {
	clearProgress(cmd)
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if f.json {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
	} else {
		fmt.Fprint(cmd.OutOrStdout(), r.Table())
	}
	if f.out == "" {
		return nil
	}
	files := map[string][]byte{"schedule.json": append(b, '\n'), "schedule.md": []byte(r.Table())}
	for _, named := range report.SchedulePictures(r) {
		files[named.Name+".svg"] = []byte(named.Picture.SVG())
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(f.out, name), content); err != nil {
			return err
		}
	}
	return nil
}
