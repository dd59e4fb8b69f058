package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/natefinch/lumberjack.v2"
	"gopkg.in/yaml.v3"

	"github.com/godwitdb/godwit/node"
)

// fileUnderFlags reads the YAML file at path into the struct that the flags are bound to. Then it
// sets the given flags again, as flags override the file.
func fileUnderFlags(path string, cfg any, flags *pflag.FlagSet) error {
	type given struct {
		flag *pflag.Flag
		text string
		list []string
	}
	var keep []given
	flags.Visit(func(f *pflag.Flag) {
		g := given{flag: f, text: f.Value.String()}
		if l, ok := f.Value.(pflag.SliceValue); ok {
			g.list = l.GetSlice()
		}
		keep = append(keep, g)
	})
	if err := readYAML(path, cfg); err != nil {
		return err
	}
	for _, g := range keep {
		var err error
		if l, ok := g.flag.Value.(pflag.SliceValue); ok {
			err = l.Replace(g.list)
		} else {
			err = g.flag.Value.Set(g.text)
		}
		if err != nil {
			return usagef("--%s: %v", g.flag.Name, err)
		}
	}
	return nil
}

var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongType  = regexp.MustCompile("cannot unmarshal !!(\\w+) (?:`(.*)` )?into (\\S+)")
)

// typeNames says what a Go type is called in a YAML file.
var typeNames = map[string]string{"int": "a whole number", "string": "a text", "time.Duration": "a duration such as 500us or 10m",
	"[]string": "a list of texts", "bool": "true or false", "float64": "a number"}

// readYAML reads a file strictly: a key that cfg has no field for is an error, with its line.
func readYAML(path string, cfg any) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return usageError{err}
	}
	dec := yaml.NewDecoder(bytes.NewReader(body))
	dec.KnownFields(true)
	err = dec.Decode(cfg)
	if errors.Is(err, io.EOF) {
		return nil // an empty file sets nothing
	}
	var bad *yaml.TypeError
	if errors.As(err, &bad) {
		unknown := false
		for i, e := range bad.Errors {
			unknown = unknown || unknownKey.MatchString(e)
			e = unknownKey.ReplaceAllString(e, `unknown key "$1"`)
			bad.Errors[i] = wrongType.ReplaceAllStringFunc(e, func(m string) string {
				p := wrongType.FindStringSubmatch(m)
				want := typeNames[p[3]]
				if want == "" {
					want = p[3]
				}
				if p[2] == "" {
					return "expected " + want + ", not a " + p[1]
				}
				return fmt.Sprintf("expected %s, not %q", want, p[2])
			})
		}
		msg := path + ": " + strings.Join(bad.Errors, "\n"+path+": ")
		if unknown {
			msg += "\nthe keys are " + strings.Join(yamlKeys(cfg), ", ")
		}
		return usageError{errors.New(msg)}
	}
	if err != nil {
		return usagef("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return usagef("%s: a second YAML document follows; a file configures one node", path)
	}
	return nil
}

func yamlKeys(cfg any) []string {
	var keys []string
	t := reflect.TypeOf(cfg).Elem()
	for i := range t.NumField() {
		if key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// nodeLogger is what a node's configuration says of its log: lines or JSON, to out or to a file
// that is rotated.
func nodeLogger(out io.Writer, cfg *node.Config) (*slog.Logger, io.Closer, error) {
	var file io.Closer = io.NopCloser(nil)
	if cfg.LogFile != "" {
		f := &lumberjack.Logger{Filename: cfg.LogFile, MaxSize: cfg.LogFileMB, MaxBackups: cfg.LogFiles}
		if _, err := f.Write(nil); err != nil { // now, and not at the first line
			return nil, nil, fmt.Errorf("--log-file: %w", err)
		}
		out, file = f, f
	}
	log, err := logger(out, cfg.LogLevel)
	if err == nil && cfg.LogFormat == "json" {
		log = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: levelOf(log), ReplaceAttr: plainErrors}))
	}
	return log, file, err
}

// levelOf is the level from which on a logger writes.
func levelOf(log *slog.Logger) slog.Level {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(context.Background(), l) {
			return l
		}
	}
	return slog.LevelError
}

// logger writes readable lines from a level on. A level that does not exist is a usage error.
func logger(out io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	switch level {
	case "debug":
		l = slog.LevelDebug
	case "info":
		l = slog.LevelInfo
	case "warn":
		l = slog.LevelWarn
	case "error":
		l = slog.LevelError
	default:
		return nil, usagef("--log-level: %q is none of debug, info, warn, error", level)
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: l, ReplaceAttr: plainErrors})), nil
}

// plainErrors logs an error as its text. The handler's own format, %+v, adds the stack traces that
// some libraries attach.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
