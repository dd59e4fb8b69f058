//go:build !linux

package cli

// shortSlices does nothing where the operating system has no such setting.
func shortSlices() {}
