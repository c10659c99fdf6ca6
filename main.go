// Command mete is a gateway for vLLM GPU pools: it checks the caller's key,
// measures what the caller may use, hands each request to the replica that will
// answer it soonest, and relays the answer byte for byte.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	redis.SetLogger(quiet{})
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mete:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// quiet drops the Redis client's own log: the limiter reports what matters of
// it, once, in the gateway's log.
type quiet struct{}

// Printf implements the client's logger.
func (quiet) Printf(context.Context, string, ...any) {}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mete",
		Short:         "A gateway for vLLM GPU pools",
		Long:          "mete checks the caller's key, measures what the caller may use, hands each request\nto the replica that will answer it soonest, and relays the answer byte for byte.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(loginCommand(), envCommand(), whoamiCommand(), logoutCommand())
	root.AddCommand(serveCommand(), checkCommand(), keysCommand(), usageCommand(), topCommand(), simCommand(), benchCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "mete", buildVersion()) },
	}
}

// buildVersion is what the linker was told, or what go install knows.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "dev"
}
