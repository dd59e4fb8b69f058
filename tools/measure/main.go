// Command measure says how a tree of Go code is laid out and written, in figures that can be
// compared between commits and between projects: sizes of folders, packages and functions,
// complexity, comments, tests.
//
//	go run ./tools/measure [-json] [-packages] [-worst 10] [folder]
//
// Generated code and blank lines are left out everywhere. Complexity is McCabe's: 1 for a function,
// and 1 for each if, loop, case that is not the default, && and ||; a function literal counts into
// the function around it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	asJSON := flag.Bool("json", false, "print all figures as JSON")
	packages := flag.Bool("packages", false, "print a line for each package, too")
	worst := flag.Int("worst", 0, "print so many of the most complex and of the longest functions, too")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(os.Stdout, root, *asJSON, *packages, *worst); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, root string, asJSON, packages bool, worst int) error {
	r, err := Measure(root)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	r.print(w)
	if packages {
		r.printPackages(w)
	}
	if worst > 0 {
		r.printWorst(w, worst)
	}
	return nil
}
