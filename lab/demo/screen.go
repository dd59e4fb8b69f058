package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen shows a table that changes: redrawn in place on a terminal, appended
// elsewhere. Text written to it in between, such as logs, scrolls above the
// table. It is safe for concurrent use.
type Screen struct {
	out io.Writer
	// size returns the terminal's size; nil if out is no terminal.
	size func() (columns, rows int)

	mu    sync.Mutex
	lines []string // on the screen now, below everything else
}

// NewScreen writes to out. size is nil unless out is a terminal, see [TerminalSize].
func NewScreen(out io.Writer, size func() (columns, rows int)) *Screen {
	return &Screen{out: out, size: size}
}

// Terminal tells whether tables are redrawn in place.
func (s *Screen) Terminal() bool { return s.size != nil }

// Draw replaces the table.
func (s *Screen) Draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size == nil {
		_, _ = fmt.Fprintln(s.out, strings.Join(lines, "\n")) // an error here means that the reader is gone
		return
	}
	_, _ = io.WriteString(s.out, s.clear()+s.render(lines))
}

// Write puts whole lines above the table.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size == nil || len(s.lines) == 0 {
		return s.out.Write(p)
	}
	text := string(p)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := io.WriteString(s.out, s.clear()+text+s.render(s.lines)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Leave keeps what is drawn and goes on below it.
func (s *Screen) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

// clear moves to the first line of the table and erases from there on.
func (s *Screen) clear() string {
	if len(s.lines) == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", len(s.lines))
}

// render cuts lines to the terminal: a line that wraps, or a table that
// scrolls, could not be redrawn.
func (s *Screen) render(lines []string) string {
	columns, rows := s.size()
	if n := max(rows-1, 1); rows > 0 && len(lines) > n {
		lines = lines[:n]
	}
	var b strings.Builder
	for _, l := range lines {
		if columns > 0 && utf8.RuneCountInString(l) > columns {
			l = string([]rune(l)[:columns])
		}
		b.WriteString(l + "\n")
	}
	s.lines = lines
	return b.String()
}
