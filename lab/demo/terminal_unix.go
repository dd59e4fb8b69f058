//go:build unix

package demo

import (
	"os"

	"golang.org/x/sys/unix"
)

// TerminalSize returns a function that reads the size of the terminal f; nil if f is no terminal.
func TerminalSize(f *os.File) func() (columns, rows int) {
	fd := int(f.Fd())
	if _, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil {
		return nil
	}
	return func() (int, int) {
		ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err != nil {
			return 0, 0
		}
		return int(ws.Col), int(ws.Row)
	}
}
