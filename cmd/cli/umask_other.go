//go:build !unix

package cli

// ownFiles does nothing where files have no modes.
func ownFiles() {}
