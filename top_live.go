package main

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// top is the live view, as bubbletea runs it.
type top struct {
	ctx           context.Context // of the command: bubbletea hands none to its commands
	looker        *looker
	now, before   look
	err           error // of the last look
	width, height int
	offset        int // lines scrolled away
}

type (
	lookTaken struct {
		look look
		err  error
	}
	lookDue struct{}
)

// Init implements tea.Model.
func (t *top) Init() tea.Cmd { return t.take }

// Update implements tea.Model.
func (t *top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.width, t.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return t, t.press(msg.String())
	case lookDue:
		return t, t.take
	case lookTaken:
		t.err = msg.err
		if msg.err == nil {
			t.before, t.now = t.now, msg.look
		}
		return t, tea.Tick(topEvery, func(time.Time) tea.Msg { return lookDue{} })
	}
	return t, nil
}

// View implements tea.Model.
func (t *top) View() tea.View {
	v := tea.NewView(strings.Join(t.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "mete top"
	return v
}

// take looks, in a goroutine of bubbletea's.
func (t *top) take() tea.Msg {
	v, err := t.looker.look(t.ctx)
	return lookTaken{v, err}
}

func (t *top) press(key string) tea.Cmd {
	page := max(t.height-3, 1)
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "down", "j":
		t.offset++
	case "up", "k":
		t.offset--
	case "pgdown", "space":
		t.offset += page
	case "pgup":
		t.offset -= page
	case "home", "g":
		t.offset = 0
	}
	return nil
}

// screen is the part of the frame that fits, with a line at the foot.
func (t *top) screen() []string {
	lines := []string{""}
	if !t.now.at.IsZero() {
		lines = frame{t.now, t.before, t.looker.base, t.width}.lines()
	}
	foot := paintDim.Render("q quits")
	room := len(lines)
	if t.height > 0 {
		room = max(t.height-1, 1)
	}
	if hidden := len(lines) - room; hidden > 0 {
		t.offset = min(max(t.offset, 0), hidden)
		lines = lines[t.offset : t.offset+room]
		foot = paintDim.Render("q quits   arrows scroll")
	} else {
		t.offset = 0
	}
	if t.err != nil {
		foot += "   " + paintBad.Render(t.err.Error())
	}
	for len(lines) < room {
		lines = append(lines, "")
	}
	return append(lines, ansi.Truncate(foot, t.width, ""))
}
