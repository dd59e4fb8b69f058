//go:build ignore

// Pgostrip copies a profile from its input to its output without file names. They name paths of the
// machine on which the profile was made, and the compiler does not use them.
package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// stringTable is the number of the field string_table in the profile message.
const stringTable = 6

func main() {
	log.SetFlags(0)
	zr, err := gzip.NewReader(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	in, err := io.ReadAll(zr)
	if err != nil {
		log.Fatal(err)
	}
	zw := gzip.NewWriter(os.Stdout)
	for len(in) > 0 {
		num, typ, n := protowire.ConsumeTag(in)
		if n < 0 {
			log.Fatal(protowire.ParseError(n))
		}
		m := protowire.ConsumeFieldValue(num, typ, in[n:])
		if m < 0 {
			log.Fatal(protowire.ParseError(m))
		}
		field := in[:n+m]
		if num == stringTable {
			if s, _ := protowire.ConsumeBytes(in[n:]); bytes.HasPrefix(s, []byte("/")) {
				field = protowire.AppendBytes(protowire.AppendTag(nil, num, typ), nil)
			}
		}
		if _, err := zw.Write(field); err != nil {
			log.Fatal(err)
		}
		in = in[n+m:]
	}
	if err := zw.Close(); err != nil {
		log.Fatal(err)
	}
}
