//go:build ignore

// Gen makes a file of this package from a table of weights: go run gen.go allkeys.txt > 900.txt
//
// The table has the form of allkeys.txt of the Unicode Collation Algorithm (UTS 10, section 9), of
// which characters and primary weights are read. Version 9.0.0 is that of the collations with 0900
// in their names. Those of before know no contractions, and neither a server's does: what
// WEIGHT_STRING(c COLLATE utf8mb4_unicode_520_ci) says of each character is 5.2.0, and with
// utf8mb4_unicode_ci it is 4.0.0, which is no longer to be had as a file.
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var element = regexp.MustCompile(`\[[.*]([0-9A-F]+)[.0-9A-F]*\]`)

func main() {
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	type entry struct {
		text    []rune
		weights []int
	}
	var all []entry
	stands := map[int]rune{} // for a weight that it has alone
	for in := bufio.NewScanner(f); in.Scan(); {
		line, _, _ := strings.Cut(in.Text(), "#")
		text, weights, ok := strings.Cut(line, ";")
		if !ok || strings.HasPrefix(line, "@") {
			continue
		}
		var e entry
		for _, x := range strings.Fields(text) {
			e.text = append(e.text, rune(number(x)))
		}
		for _, m := range element.FindAllStringSubmatch(weights, -1) {
			if w := number(m[1]); w != 0 {
				e.weights = append(e.weights, w)
			}
		}
		all = append(all, e)
		if len(e.text) == 1 && len(e.weights) == 1 {
			if r, ok := stands[e.weights[0]]; !ok || e.text[0] < r {
				stands[e.weights[0]] = e.text[0]
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return slices.Compare(a.text, b.text) })
	from, to := rune(-2), rune(-2)
	ignored := func() {
		if from == to && from >= 0 {
			fmt.Printf("%x =\n", from)
		} else if from >= 0 {
			fmt.Printf("%x-%x =\n", from, to)
		}
		from, to = -2, -2
	}
	for _, e := range all {
		switch {
		case len(e.text) == 1 && len(e.weights) == 0 && e.text[0] == to+1:
			to++
			continue
		case len(e.text) == 1 && len(e.weights) == 0:
			ignored()
			from, to = e.text[0], e.text[0]
			continue
		}
		ignored()
		if len(e.text) == 1 && len(e.weights) == 1 {
			continue
		}
		var out []string
		for i := 0; i < len(e.weights); i++ {
			r, ok := stands[e.weights[i]]
			if !ok && e.weights[i] >= 0xfb00 && i+1 < len(e.weights) { // UTS 10, section 10.1.3
				r = rune((e.weights[i]&0x3f)<<15 | e.weights[i+1]&0x7fff)
				i++
			} else if !ok {
				log.Fatalf("%x: no character has the weight %x alone", e.text, e.weights[i])
			}
			out = append(out, fmt.Sprintf("%x", r))
		}
		fmt.Println(strings.Trim(fmt.Sprintf("%x", e.text), "[]"), "=", strings.Join(out, " "))
	}
	ignored()
}

func number(hex string) int {
	n, err := strconv.ParseInt(hex, 16, 32)
	if err != nil {
		log.Fatal(err)
	}
	return int(n)
}
