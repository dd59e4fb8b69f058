// Package charset speaks with clients in their character sets. Everything behind it is UTF-8:
// [Handler] reads statements and parameters as character_set_client says, and writes results and
// errors as character_set_results says.
//
// The sets are those of golang.org/x/text, and of go-mysql-server where that has more. Not utf16,
// utf32 and ucs2: MySQL, too, reads no statements in them.
package charset

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// MySQL's latin1 is Windows' code page 1252, and latin7 is ISO 8859-13.
var known = map[sql.CharacterSetID]encoding.Encoding{
	sql.CharacterSet_latin1: charmap.Windows1252, sql.CharacterSet_latin2: charmap.ISO8859_2, sql.CharacterSet_latin5: charmap.ISO8859_9,
	sql.CharacterSet_latin7: charmap.ISO8859_13, sql.CharacterSet_greek: charmap.ISO8859_7, sql.CharacterSet_hebrew: charmap.ISO8859_8,
	sql.CharacterSet_cp1250: charmap.Windows1250, sql.CharacterSet_cp1251: charmap.Windows1251, sql.CharacterSet_cp1256: charmap.Windows1256,
	sql.CharacterSet_cp1257: charmap.Windows1257, sql.CharacterSet_cp850: charmap.CodePage850, sql.CharacterSet_cp852: charmap.CodePage852,
	sql.CharacterSet_cp866: charmap.CodePage866, sql.CharacterSet_koi8r: charmap.KOI8R, sql.CharacterSet_koi8u: charmap.KOI8U,
	sql.CharacterSet_tis620: charmap.Windows874, sql.CharacterSet_macroman: charmap.Macintosh,
	sql.CharacterSet_gbk: simplifiedchinese.GBK, sql.CharacterSet_gb2312: simplifiedchinese.GBK, sql.CharacterSet_gb18030: simplifiedchinese.GB18030,
	sql.CharacterSet_big5: traditionalchinese.Big5, sql.CharacterSet_sjis: japanese.ShiftJIS, sql.CharacterSet_cp932: japanese.ShiftJIS,
	sql.CharacterSet_ujis: japanese.EUCJP, sql.CharacterSet_eucjpms: japanese.EUCJP, sql.CharacterSet_euckr: korean.EUCKR,
}

// Set is a character set of a client. A nil one is UTF-8, or takes bytes as they are.
type Set struct {
	id sql.CharacterSetID
	to encoding.Encoding // nil: it is one of the engine's
}

// Of is a set by its number; ok is false if texts of clients cannot be in it.
func Of(id sql.CharacterSetID) (s *Set, ok bool) {
	switch id {
	case sql.CharacterSet_Unspecified, sql.CharacterSet_binary, sql.CharacterSet_utf8mb3, sql.CharacterSet_utf8mb4:
		return nil, true
	case sql.CharacterSet_utf16, sql.CharacterSet_utf16le, sql.CharacterSet_utf32, sql.CharacterSet_ucs2:
		return nil, false
	}
	to := known[id]
	if to == nil && id.Encoder() == nil {
		return nil, false
	}
	return &Set{id, to}, true
}

// ambiguous reports whether the second byte of a character may be one of ASCII.
func (s *Set) ambiguous() bool {
	switch s.id {
	case sql.CharacterSet_gbk, sql.CharacterSet_gb18030, sql.CharacterSet_big5, sql.CharacterSet_sjis, sql.CharacterSet_cp932:
		return true
	}
	return false
}

// ascii reports whether a text is the same in all sets.
func ascii[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Decode is a text of the client in UTF-8. A text that is none in the set is error 1300.
func (s *Set) Decode(text string) (string, error) {
	if s == nil || ascii(text) {
		return text, nil
	}
	if s.to != nil {
		out, err := s.to.NewDecoder().String(text)
		if err == nil && !strings.ContainsRune(out, utf8.RuneError) {
			return out, nil
		}
	} else if out, ok := s.id.Encoder().Decode([]byte(text)); ok {
		return string(out), nil
	}
	return "", mysql.NewSQLError(1300, "HY000", "Invalid %s character string", s.id.Name())
}

// Encode is a text for the client. As in MySQL, what the set does not have becomes a question mark.
func (s *Set) Encode(text []byte) []byte {
	if s == nil || ascii(text) {
		return text
	}
	if s.to == nil {
		return s.id.Encoder().EncodeReplaceUnknown(text)
	}
	enc := s.to.NewEncoder()
	if out, err := enc.Bytes(text); err == nil {
		return out
	}
	var out bytes.Buffer
	for len(text) > 0 {
		_, n := utf8.DecodeRune(text)
		enc.Reset()
		if b, err := enc.Bytes(text[:n]); err == nil {
			out.Write(b)
		} else {
			out.WriteByte('?')
		}
		text = text[n:]
	}
	return out.Bytes()
}

// Statement is a statement of the client in UTF-8. What stands behind the name of a set, as in
// _binary '...', is bytes of that set, whatever the client's is. Where a byte within a character
// can look like a quote or a backslash, such literals cannot be told before all is decoded, and are
// refused (1235).
func (s *Set) Statement(text string) (string, error) {
	if s == nil || ascii(text) {
		return text, nil
	}
	if s.ambiguous() {
		out, err := s.Decode(text)
		for _, l := range introduced(out) {
			if !ascii(out[l.from:l.to]) {
				return "", mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'literals like _binary '...' with other "+
					"than ASCII characters in statements in %s': write them in hexadecimal, X'...'", s.id.Name())
			}
		}
		return out, err
	}
	return s.around(text, s.Decode)
}

// Raw is what Statement has made a text of.
func (s *Set) Raw(text string) string {
	if s == nil || ascii(text) {
		return text
	}
	out, _ := s.around(text, func(t string) (string, error) { return string(s.Encode([]byte(t))), nil })
	return out
}

// around leaves literals with the name of a set as they are.
func (s *Set) around(text string, f func(string) (string, error)) (string, error) {
	var out strings.Builder
	from := 0
	for _, l := range introduced(text) {
		head, err := f(text[from:l.from])
		if err != nil {
			return "", err
		}
		out.WriteString(head)
		out.WriteString(text[l.from:l.to])
		from = l.to
	}
	rest, err := f(text[from:])
	out.WriteString(rest)
	return out.String(), err
}

// same reports whether two sets are one.
func (s *Set) same(other *Set) bool {
	return s == other || s != nil && other != nil && s.id == other.id
}
