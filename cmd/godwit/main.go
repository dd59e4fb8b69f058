// Command godwit is the one binary: a node, a whole cluster in one process,
// and the tools around them. Package cli has the commands.
package main

import (
	"os"

	"github.com/godwitdb/godwit/cmd/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
