package browsertest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// patience is how long anything in a browser may take on a busy machine.
const patience = 20 * time.Second

// Browser is a running Chromium without a window. Its tabs share nothing.
type Browser struct{ ctx context.Context }

// Tab is one page of a browser, with cookies of its own.
type Tab struct {
	t   testing.TB
	ctx context.Context
}

// Start runs a browser until the test ends.
func Start(t testing.TB) *Browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(binary(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		stop()
		chromedp.FromContext(ctx).Allocator.Wait()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("browser: %v", err)
	}
	return &Browser{ctx}
}

// Tab opens a page without cookies, as large as a desktop's window.
func (b *Browser) Tab(t testing.TB) *Tab {
	t.Helper()
	ctx, _ := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) })
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as this context
		t.Fatalf("tab: %v", err)
	}
	tab := &Tab{t, ctx}
	tab.Size(1280, 800)
	return tab
}

// For is the same page for a subtest.
func (tab *Tab) For(t testing.TB) *Tab { return &Tab{t, tab.ctx} }

// Do does things in the page and fails the test if one does not succeed.
func (tab *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	Get(tab, chromedp.Steps(steps...))
}

// Get runs an action in a page and returns what it gives.
func Get[T any](tab *Tab, action chromedp.Action[T]) T {
	tab.t.Helper()
	ctx, cancel := context.WithTimeout(tab.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		ctx, cancel := context.WithTimeout(tab.ctx, patience)
		defer cancel()
		html, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.documentElement.outerHTML"))
		tab.t.Fatalf("%v on this page:\n%s", err, html)
	}
	return value
}

// Open goes to a URL and waits until the page is there.
func (tab *Tab) Open(url string) {
	tab.t.Helper()
	tab.Do(chromedp.Navigate(url))
}

// Fill types a text into a field, in place of what is there.
func (tab *Tab) Fill(field, text string) {
	tab.t.Helper()
	tab.Do(chromedp.Clear(chromedp.CSS(field)), chromedp.SendKeys(chromedp.CSS(field), text))
}

// Submit clicks what leads to another page and waits for an element of that.
func (tab *Tab) Submit(click, wait string) {
	tab.t.Helper()
	tab.Do(chromedp.Click(chromedp.CSS(click)), chromedp.WaitVisible(chromedp.CSS(wait)))
}

// Text is what a page shows in an element.
func (tab *Tab) Text(selector string) string {
	tab.t.Helper()
	return strings.TrimSpace(Get(tab, chromedp.Text(chromedp.CSS(selector))))
}

// Size makes the page as wide and high as a screen. Less than 600 is a phone.
func (tab *Tab) Size(width, height int64) {
	tab.t.Helper()
	options := []chromedp.EmulateViewportOption{}
	if width < 600 {
		options = append(options, chromedp.EmulateMobile)
	}
	tab.Do(chromedp.EmulateViewport(width, height, options...))
}

// Dark chooses between a dark screen and a light one.
func (tab *Tab) Dark(dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	tab.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// NoScripts switches the page's JavaScript off.
func (tab *Tab) NoScripts() {
	tab.t.Helper()
	tab.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// Screenshot is the whole page in a window of this width, as PNG.
func (tab *Tab) Screenshot(width int64) []byte {
	tab.t.Helper()
	tab.Size(width, 100)
	height := Get(tab, chromedp.Evaluate[int64]("document.documentElement.scrollHeight"))
	tab.Size(width, max(height, 640))
	const painted = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 150))))"
	Get(tab, chromedp.Evaluate[bool](painted, chromedp.EvalAwaitPromise))
	return Get(tab, chromedp.CaptureScreenshot())
}

// Frames are the URLs of the frames in the page, those of error pages left out.
func (tab *Tab) Frames() (urls []string) {
	tab.t.Helper()
	tab.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		tree, err := cdp.Call(ctx, t, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, child := range tree.FrameTree.ChildFrames {
			if child.Frame.UnreachableURL == "" && !strings.HasPrefix(child.Frame.URL, "chrome-error:") {
				urls = append(urls, child.Frame.URL)
			}
		}
		return nil
	}))
	return urls
}

func binary(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "no Chromium on PATH: apt-get install chromium")
	return ""
}

// missing skips loudly, or fails where everything must be there.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}
