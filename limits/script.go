package limits

import (
	"crypto/sha1" //nolint:gosec // the hash by which Redis names scripts
	_ "embed"
	"encoding/hex"
)

var (
	//go:embed lua/window.lua
	windowLua string
	//go:embed lua/admit.lua
	admitLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/keep.lua
	keepLua string
	//go:embed lua/beat.lua
	beatLua string
	//go:embed lua/usage.lua
	usageLua string
)

// What the scripts answer first.
const (
	replyOK = iota
	replyExceeded
	replyPlan
	replyGone
	replyRevoked
	replyExpired
	replyLate
)

// What admit.lua may leave out.
const (
	trustKey = 1 << iota // do not look at the key
	lookOnly             // write nothing
)

// scripts are the scripts in the form in which a command takes them; boxed
// once, so that no command has to.
type scripts struct{ admit, settle, keep, beat, usage script }

type script struct{ sha, source any }

// loadScripts makes the scripts, with the text of the clock that they all
// share given to edit, so that a test can set the time.
func loadScripts(edit func(string) string) *scripts {
	head := edit(windowLua)
	load := func(body string) script {
		sum := sha1.Sum([]byte(head + body)) //nolint:gosec // see the import
		return script{sha: hex.EncodeToString(sum[:]), source: head + body}
	}
	return &scripts{
		admit: load(admitLua), settle: load(settleLua), keep: load(keepLua),
		beat: load(beatLua), usage: load(usageLua),
	}
}

func redisClock(head string) string { return head }
