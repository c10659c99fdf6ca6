package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"mete/config"
)

type serveFlags struct{ config, api, admin, console string }

func serveCommand() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve [--config FILE]",
		Short: "Run the gateway",
		Long: `Run the gateway. Without a config file this is try-it mode: the gateway, a
store in the same process and two simulated replicas, all on loopback.

SIGTERM and Ctrl-C let running answers end: the gateway reports itself not
ready for shutdown.lame_duck, then waits up to shutdown.drain. A second signal
ends it at once. On SIGHUP, and when the config file or a file that it names
changes, models, pools, plans, keys and most knobs are taken over without
dropping a stream; a file with a fault changes nothing. On SIGUSR2 the program
is started anew on the same sockets, and once that serves this process drains.`,
		Example: "  mete serve\n  mete serve --config /etc/mete/mete.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serve(cmd, flags) },
	}
	cmd.Flags().StringVarP(&flags.config, "config", "c", "", "the config `FILE`; none is try-it mode")
	cmd.Flags().StringVar(&flags.api, "listen", "", "`ADDRESS` of the API in place of the configured one; port 0 picks a free one")
	cmd.Flags().StringVar(&flags.admin, "admin-listen", "", "`ADDRESS` of the admin listener in place of the configured one")
	cmd.Flags().StringVar(&flags.console, "console-listen", "", "`ADDRESS` of the console in place of the configured one")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// serve runs the gateway, or try-it mode around it, until the command's
// context ends.
func serve(cmd *cobra.Command, flags serveFlags) error {
	if flags.config == "" {
		return tryIt(cmd, flags)
	}
	return serveFile(cmd.Context(), flags, nil)
}

// serveFile runs the gateway on a config file, which it loads again when it
// changes.
func serveFile(ctx context.Context, flags serveFlags, ready func(*running) error) error {
	load := func() (*config.Config, []string, error) {
		cfg, files, err := config.LoadFiles(flags.config)
		if err == nil {
			flags.override(cfg)
		}
		return cfg, files, err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	watch := newFileWatch([]string{flags.config}) // before it is read, and long before it is in force
	cfg, files, err := load()
	if err != nil {
		return err
	}
	watch = watch.following(files)
	log, closeLog, err := newLogger(cfg.Log)
	if err != nil {
		return err
	}
	defer closeLog()
	return run(ctx, cfg, log, func(r *running) error {
		r.goReload(load, watch, hup)
		if ready == nil {
			return nil
		}
		return ready(r)
	})
}

func (f serveFlags) override(cfg *config.Config) {
	if f.api != "" {
		cfg.Listen.API = f.api
	}
	if f.admin != "" {
		cfg.Listen.Admin = f.admin
	}
	if f.console != "" {
		cfg.Listen.Console = f.console
	}
}

// run is the gateway's life: everything is made ready, then it serves until ctx
// ends, drains, and gives everything back. ready, if not nil, is called once
// requests are accepted.
func run(ctx context.Context, cfg *config.Config, log zerolog.Logger, ready func(*running) error) error {
	restart := make(chan os.Signal, 1)
	signal.Notify(restart, syscall.SIGUSR2)
	defer signal.Stop(restart)
	r, err := start(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer r.close()
	r.log.Info().Str("version", buildVersion()).Str("api", r.api.Addr().String()).Str("admin", r.admin.Addr().String()).
		Int("models", len(cfg.Models)).Int("pid", os.Getpid()).Msg("mete is ready")
	if ready != nil {
		if err := ready(r); err != nil {
			return err
		}
	}
	// systemd first: once the parent knows, it may end, and must not be taken for the service.
	if err := errors.Join(notify(fmt.Sprintf("READY=1\nMAINPID=%d", os.Getpid())), tellParent()); err != nil {
		r.log.Warn().Err(err).Msg("nobody knows that this process serves")
	}
	for {
		select {
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			_ = notify("STOPPING=1")
			r.leave() // the lame-duck time begins once nobody new is sent here
			return r.drain()
		case <-restart:
			r.log.Info().Msg("starting a new process in place of this one")
			if err := r.succeed(ctx); err != nil {
				r.log.Error().Err(err).Msg("no new process; this one goes on")
				continue
			}
			r.handOver()
			return r.drain()
		}
	}
}

// drain lets running answers end: first a time in which load balancers can look
// away, then one in which no request is accepted any more.
func (r *running) drain() error {
	stop := newSecondSignal()
	defer stop.release()
	r.log.Info().Dur("lame_duck", r.cfg().Shutdown.LameDuck).Dur("drain", r.cfg().Shutdown.Drain).
		Int("in_flight", r.gateway.InFlight()).Msg("stopping")
	r.gateway.Retire()
	select {
	case <-time.After(r.cfg().Shutdown.LameDuck):
	case <-stop.Done():
	}
	ctx, cancel := context.WithTimeout(stop, r.cfg().Shutdown.Drain)
	defer cancel()
	err := r.gateway.Shutdown(ctx)
	r.log.Info().Err(err).Msg("stopped")
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil // logged; cutting what outlives the drain time is not a failure
	}
	return err
}
