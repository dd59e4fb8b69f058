//go:build !linux

package admit

// yieldThread does nothing where the operating system has no such call.
func yieldThread() {}
