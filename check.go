package main

import (
	"errors"
	"fmt"
	"strings"

	"mete/config"

	"github.com/spf13/cobra"
)

// checkCommand loads a config file as serve would, and reports every fault.
func checkCommand() *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a config file and print every fault with file:line:column",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true
			return check(cmd, file)
		},
	}
	command.Flags().StringVarP(&file, "config", "c", "", "the config `FILE` to check")
	_ = command.MarkFlagRequired("config")
	_ = command.MarkFlagFilename("config", "yaml", "yml")
	return command
}

// check prints the faults, one to a line, and returns how many there were.
func check(cmd *cobra.Command, file string) error {
	cfg, err := config.Load(file)
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		cmd.PrintErrln(faults.Error())
		return fmt.Errorf("%s: %s", file, count(len(faults), "fault"))
	case err != nil:
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok: %s\n", file, summary(cfg))
	return nil
}

func summary(cfg *config.Config) string {
	replicas, names, services := 0, 0, 0
	for _, pool := range cfg.Pools {
		replicas += len(pool.Replicas)
		names += len(pool.DNS)
		services += len(pool.Consul)
	}
	parts := []string{count(len(cfg.Models), "model"), count(len(cfg.Pools), "pool"), count(replicas, "replica")}
	if names > 0 {
		parts = append(parts, count(names, "DNS name"))
	}
	if services > 0 {
		parts = append(parts, count(services, "Consul service"))
	}
	parts = append(parts, count(len(cfg.Plans), "plan"), count(len(cfg.Keys), "static key"))
	return strings.Join(parts, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
