//go:build unix

package cli

import "syscall"

// ownFiles has the process make files that only its own user can read.
func ownFiles() { syscall.Umask(0o077) }
