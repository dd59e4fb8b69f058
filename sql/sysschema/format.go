package sysschema

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// formatTime words picoseconds as sys.format_time does.
func formatTime(ps uint64) string {
	const second = 1e12
	for _, u := range []struct {
		name string
		of   float64
	}{{"w", 604800 * second}, {"d", 86400 * second}, {"h", 3600 * second}, {"m", 60 * second}, {"s", second}, {"ms", 1e9}, {"us", 1e6}, {"ns", 1e3}} {
		if float64(ps) >= u.of {
			return fmt.Sprintf("%.2f %s", float64(ps)/u.of, u.name)
		}
	}
	return fmt.Sprint(ps, " ps")
}

// formatBytes words bytes as sys.format_bytes does.
func formatBytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprint(n, " bytes")
	}
	v := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v /= 1024; v < 1024 {
			return fmt.Sprintf("%.2f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.2f PiB", v/1024)
}

// truncateLen is how many characters of a statement are shown: the default of sys_config.
const truncateLen = 64

// formatStatement shortens a statement as sys.format_statement does.
func formatStatement(s string) string {
	s = strings.ReplaceAll(s, "\n", " ")
	if utf8.RuneCountInString(s) <= truncateLen {
		return s
	}
	const half = truncateLen/2 - 2
	r := []rune(s)
	return string(r[:half]) + " ... " + string(r[len(r)-half:])
}
