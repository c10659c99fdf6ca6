package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

type loginFlags struct {
	url, plan, name string
	noBrowser, noQR bool
}

func loginCommand() *cobra.Command {
	var flags loginFlags
	cmd := &cobra.Command{
		Use:   "login --url URL",
		Short: "Get a key by approving this device in a browser",
		Long: `Get a key by approving this device in a browser. The key is stored for this
user alone; 'mete env' puts it into the environment of a shell.`,
		Example: "  mete login --url https://api.example.com\n  eval \"$(mete env)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l := &login{out: cmd.ErrOrStderr(), wait: waitFor, now: time.Now, terminal: onTerminal(cmd.ErrOrStderr())}
			return l.run(cmd.Context(), flags)
		},
	}
	cmd.Flags().StringVar(&flags.url, "url", "", "`URL` of the gateway (default: the one that was logged in to last)")
	cmd.Flags().StringVar(&flags.plan, "plan", "", "ask for a key of this plan")
	cmd.Flags().StringVar(&flags.name, "name", "", "name of the key (default: this computer's)")
	cmd.Flags().BoolVar(&flags.noBrowser, "no-browser", false, "do not open a browser")
	cmd.Flags().BoolVar(&flags.noQR, "no-qr", false, "print no QR code")
	return cmd
}

// login is one run of the command. Time is its own so that tests need not wait.
type login struct {
	out      io.Writer
	terminal bool // out can be written over
	wait     func(context.Context, time.Duration) error
	now      func() time.Time
	open     func(link string) bool // nil: what the system has
}

func (l *login) run(ctx context.Context, flags loginFlags) error {
	store, err := openCredentials()
	if err != nil {
		return err
	}
	gateway, err := newGatewayClient(flags.url, store)
	if err != nil {
		return err
	}
	defer gateway.close()
	code, err := gateway.startLogin(ctx, nameOfKey(flags.name), flags.plan)
	if err != nil {
		return err
	}
	l.show(code, flags)
	token, err := l.await(ctx, gateway, code, nameOfKey(flags.name))
	if err != nil {
		return err
	}
	credential := credential{Key: token.AccessToken, Plan: token.Scope, Saved: l.now().UTC().Truncate(time.Second)}
	if token.ExpiresIn > 0 {
		credential.Expires = credential.Saved.Add(time.Duration(token.ExpiresIn) * time.Second)
	}
	if err := store.put(gateway.base, credential); err != nil {
		return err
	}
	fmt.Fprintf(l.out, "Logged in to %s. The key is in %s, for you alone.\n", gateway.base, store.path)
	fmt.Fprintf(l.out, "To use it in this shell:  eval \"$(mete env)\"\n")
	return nil
}

// show prints the code, the link and the QR code, and opens a browser if there
// is one here.
func (l *login) show(code deviceCode, flags loginFlags) {
	fmt.Fprintf(l.out, "\n%s\n", bigCode(code.UserCode))
	fmt.Fprintf(l.out, "Open     %s\nand type %s there, if this code is shown here and nowhere else.\n\n", code.VerificationURI, code.UserCode)
	link := code.link()
	if !flags.noQR {
		fmt.Fprintln(l.out, qrCode(link, l.terminal))
	}
	if flags.noBrowser || !hasWebScheme(link) {
		return
	}
	open := l.open
	if open == nil {
		open = openBrowser
	}
	if open(link) {
		fmt.Fprintln(l.out, "A browser was opened on this computer.")
	}
}

// await polls until somebody has decided or the code is over.
func (l *login) await(ctx context.Context, gateway *gatewayClient, code deviceCode, client string) (deviceToken, error) {
	end := l.now().Add(time.Duration(code.ExpiresIn) * time.Second)
	interval := time.Duration(max(code.Interval, 1)) * time.Second
	hiccups := time.Duration(0) // added while the network or the gateway fails
	if !l.terminal {
		fmt.Fprintf(l.out, "Waiting for approval, for %v at most.\n", time.Duration(code.ExpiresIn)*time.Second)
	}
	for {
		if err := l.countDown(ctx, min(interval+hiccups, max(end.Sub(l.now()), 0)), end); err != nil {
			l.clearLine()
			return deviceToken{}, errors.New("interrupted: nothing was stored")
		}
		token, err := gateway.poll(ctx, code.DeviceCode, client)
		var hiccup *hiccupError
		switch {
		case err == nil:
			l.clearLine()
			return token, nil
		case errors.Is(err, errStillPending):
			hiccups = 0
		case errors.Is(err, errSlowDown):
			interval += 5 * time.Second
		case errors.As(err, &hiccup):
			hiccups = min(2*hiccups+time.Second, 30*time.Second)
		default:
			l.clearLine()
			return deviceToken{}, err
		}
		if !l.now().Before(end) {
			l.clearLine()
			return deviceToken{}, errCodeExpired
		}
	}
}

// countDown waits, and shows each second how long the code is good for.
func (l *login) countDown(ctx context.Context, d time.Duration, end time.Time) error {
	if !l.terminal {
		return l.wait(ctx, d)
	}
	for d > 0 {
		left := max(end.Sub(l.now()), 0).Round(time.Second)
		fmt.Fprintf(l.out, "\r\x1b[KWaiting for approval. The code is good for %d:%02d more. Ctrl-C stops.", int(left.Minutes()), int(left.Seconds())%60)
		step := min(d, time.Second)
		if err := l.wait(ctx, step); err != nil {
			return err
		}
		d -= step
	}
	return ctx.Err()
}

func (l *login) clearLine() {
	if l.terminal {
		fmt.Fprint(l.out, "\r\x1b[K")
	}
}

func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nameOfKey is what the page and the list of keys call this device.
func nameOfKey(given string) string {
	if given != "" {
		return given
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "mete login"
	}
	name := "mete login on " + host
	return name[:min(len(name), 64)]
}

func hasWebScheme(link string) bool {
	u, err := url.Parse(link)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// openBrowser reports whether there was one to start. Over SSH it would open on
// the wrong screen, if anywhere.
func openBrowser(link string) bool {
	var command []string
	switch {
	case os.Getenv("SSH_CONNECTION") != "" || os.Getenv("SSH_TTY") != "":
		return false
	case runtime.GOOS == "darwin":
		command = []string{"open", link}
	case runtime.GOOS == "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", link}
	case os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "":
		command = []string{"xdg-open", link}
	default:
		return false
	}
	browser := exec.Command(command[0], command[1:]...) //nolint:gosec // the link has a web scheme
	if browser.Start() != nil {
		return false
	}
	go func() { _ = browser.Wait() }() // ends with the starter, which ends at once
	return true
}

func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
