package infile

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReader: enclosed fields keep what MySQL takes for data, and the result is read as it is.
func TestReader(t *testing.T) {
	csv := Format{FieldEnd: ",", LineEnd: "\n", Enclosed: '"', Escape: '\\'}
	bare := Format{FieldEnd: ",", LineEnd: "\r\n", Enclosed: '"'}
	bars := Format{FieldEnd: ";;", LineEnd: "||", Enclosed: '\'', Escape: '!'}
	for _, c := range []struct {
		f        Format
		in, want string
	}{
		{csv, "1,a b,\\N\n", "1,a b,\\N\n"},
		{csv, "1,\"say, \"\"hi\"\"\"\n2,\"\"\n", "1,\"say, \\\"hi\\\"\"\n2,\"\"\n"},
		{csv, "\"two\nlines\",3\n\"x\"", "\"two\\nlines\",3\n\"x\""},
		{csv, "\"5\" wide\",6\" \n", "\"5\\\" wide\",6\" \n"},
		{csv, "a\\\nb,\"c\\\nd\"\n", "a\\nb,\"c\\nd\"\n"},
		{csv, "\"\"\"\"\n", "\"\\\"\"\n"},
		{csv, "\"open,\n1", "\"open,\\n1"},
		{csv, "end\\", "end\\"},
		{bare, "c:\\new,\"a\r\nb\nc\\\"\r\n", "c:\\\\new,\"a\\r\\nb\nc\\\\\"\r\n"},
		{bars, "1;;'a;;b||c'';;d'||2;;e;f", "1;;'a;;b!|!|c!';;d'||2;;e;f"},
	} {
		for range 2 {
			b, err := io.ReadAll(iotest.OneByteReader(NewReader(io.NopCloser(strings.NewReader(c.in)), c.f)))
			if err != nil || string(b) != c.want {
				t.Errorf("%q: %q, %v, want %q", c.in, b, err, c.want)
			}
			if c.f.Escape == 0 {
				c.f.Escape = Escape
			}
			c.in = c.want
		}
	}
}
