package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mete/bench/overhead"
	"mete/bench/report"
)

// overheadFlags are the flags of `mete bench overhead`.
type overheadFlags struct {
	quick, json, noPin   bool
	others               map[string]string
	only                 []string
	rounds, keys, nice   int
	window               time.Duration
	out, check, profiles string
}

const overheadLong = `Compares the gateway with nginx and HAProxy, where they are installed, and with
no proxy at all: processor time per short request and per streamed event, added
time to first token and inter-token latency, memory per open stream, what a
prompt of 1 MB costs.

It starts everything it needs on loopback, redis-server from the PATH included,
and ends it again. Proxies take turns in every round; what counts are the ratios
and their range. With --check it fails when a ratio is worse than its bound.`

func benchOverheadCommand() *cobra.Command {
	f := &overheadFlags{}
	cmd := &cobra.Command{
		Use:   "overhead",
		Short: "Compare the gateway with bare proxies",
		Long:  overheadLong,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.quick, "quick", false, "less than a minute: one round of the short experiments")
	flags.IntVar(&f.rounds, "rounds", 0, "rounds, in place of the usual number")
	flags.DurationVar(&f.window, "window", 0, "length of one sample, in place of the usual one")
	flags.IntVar(&f.keys, "keys", 0, "stored keys in use, in place of the usual number")
	flags.StringSliceVar(&f.only, "only", nil, fmt.Sprintf("experiments to run, of %v", overhead.Names()))
	flags.StringToStringVar(&f.others, "proxy", nil, "a further proxy in front of replicas of its own, as `NAME=URL`")
	flags.BoolVar(&f.noPin, "no-pin", false, "do not pin processes to cores")
	flags.IntVar(&f.nice, "nice", 0, "niceness of all processes; below 0, as root, keeps others off the cores of a shared machine")
	flags.StringVarP(&f.out, "out", "o", "", "`FOLDER` for overhead.json, overhead.md and overhead.html")
	flags.StringVar(&f.check, "check", "", "JSON `FILE` of accepted ratios; fail when one is worse")
	flags.StringVar(&f.profiles, "profiles", "", "write processor and memory profiles of the gateway into `FOLDER`")
	flags.BoolVar(&f.json, "json", false, "print the JSON result in place of the table")
	return cmd
}

func (f *overheadFlags) run(cmd *cobra.Command) error {
	var bounds overhead.Bounds
	var err error
	if f.check != "" {
		if bounds, err = overhead.ReadBounds(f.check); err != nil {
			return err
		}
	}
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	result, err := overhead.Run(cmd.Context(), options)
	if err != nil && (result == nil || len(result.Samples) == 0) {
		return err
	}
	if failed := errors.Join(err, f.write(cmd, result)); failed != nil {
		return failed
	}
	if bounds != nil {
		return bounds.Check(result)
	}
	return nil
}

func (f *overheadFlags) options(cmd *cobra.Command) (overhead.Options, error) {
	o := overhead.Standard()
	if f.quick {
		o = overhead.Quick()
	}
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	o.Command, o.Others, o.Pin, o.Nice = []string{self}, f.others, !f.noPin, f.nice
	if o.Profiles = f.profiles; o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return o, err
		}
	}
	if f.window > 0 {
		o.Window = f.window
	}
	if f.rounds > 0 {
		o.Rounds = f.rounds
	}
	if f.keys > 0 {
		o.Keys = f.keys
	}
	if len(f.only) > 0 {
		o.Only = f.only
	}
	o.Report = func(step string) { fmt.Fprintln(cmd.ErrOrStderr(), step) }
	if isTerminal(os.Stderr) {
		o.Report = func(step string) { fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s", step) }
	}
	return o, nil
}

func (f *overheadFlags) write(cmd *cobra.Command, r *overhead.Result) error {
	if isTerminal(os.Stderr) {
		fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if f.json {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", b)
	} else {
		fmt.Fprint(cmd.OutOrStdout(), r.Text())
	}
	if f.out == "" {
		return nil
	}
	for name, content := range map[string][]byte{
		"overhead.json": append(b, '\n'), "overhead.md": []byte(r.Text()), "overhead.html": report.Overhead(r),
	} {
		if err := writeFile(filepath.Join(f.out, name), content); err != nil {
			return err
		}
	}
	return nil
}

// benchReplicasCommand runs the replicas of a comparison, as its child.
func benchReplicasCommand() *cobra.Command {
	count := 1
	cmd := &cobra.Command{
		Use:    "replicas",
		Short:  "Run simulated replicas until the standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return overhead.ServeReplicas(cmd.Context(), count, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&count, "count", count, "how many")
	return cmd
}
