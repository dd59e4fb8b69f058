package jsondoc

import (
	"slices"
	"strings"
	"testing"
)

// found are the texts of the parts that a path leads to, and walked the paths to them.
func found(t *testing.T, doc, path string) (parts, walked []string) {
	t.Helper()
	d, err := Parse(doc, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range p.Find(d) {
		parts = append(parts, Text(v))
	}
	p.Walk(d, func(path string) { walked = append(walked, path) })
	return parts, walked
}

func TestFindAndWalk(t *testing.T) {
	const doc = `{"a": [1, [2, 3], {"b": 4}], "b": {"a": 5}}`
	for _, c := range []struct {
		path          string
		parts, walked []string
	}{
		{"$.a[0]", []string{"1"}, []string{"$.a[0]"}},
		{"$.a[last]", []string{`{"b": 4}`}, []string{"$.a[2]"}},
		{"$.a[0 to 1]", []string{"1", "[2, 3]"}, []string{"$.a[0]", "$.a[1]"}},
		{"$.a[*]", []string{"1", "[2, 3]", `{"b": 4}`}, []string{"$.a[0]", "$.a[1]", "$.a[2]"}},
		{"$.*", []string{`[1, [2, 3], {"b": 4}]`, `{"a": 5}`}, []string{"$.a", "$.b"}},
		{"$.b[0].a[last]", []string{"5"}, []string{"$.b.a"}}, // what is no array is its own only cell
		{"$**.b", []string{`{"a": 5}`, "4"}, []string{"$.b", "$.a[2].b"}},
		{"$**[1]", []string{"[2, 3]", "3"}, []string{"$.a[1]", "$.a[1][1]"}},
		{"$.c", nil, nil},
		{"$.a[5]", nil, nil},
	} {
		parts, walked := found(t, doc, c.path)
		if !slices.Equal(parts, c.parts) || !slices.Equal(walked, c.walked) {
			t.Errorf("%s leads to %v at %v, want %v at %v", c.path, parts, walked, c.parts, c.walked)
		}
	}
}

// However many ways ** finds to a part, it is one part.
func TestManyWays(t *testing.T) {
	deep := strings.Repeat("[", 40) + "1" + strings.Repeat("]", 40)
	for _, n := range []int{1, 2, 20} {
		parts, walked := found(t, deep, "$"+strings.Repeat("**[*]", n))
		if want := 41 - n; len(parts) != want || len(walked) != want {
			t.Errorf("%d times **: %d parts and %d paths, want %d", n, len(parts), len(walked), want)
		}
	}
}
