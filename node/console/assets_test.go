package console

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

// TestAssets: the pages are small, ask nobody else for anything, and make no markup of strings.
func TestAssets(t *testing.T) {
	t.Parallel()
	size := 0
	elsewhere := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s'"]*`)
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\b|new Function|javascript:`)
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(>|[^>]*>\s*[^<\s])`)
	for name, a := range assets {
		size += len(a.packed)
		text := string(a.plain)
		if a.kind == "" {
			t.Errorf("%s: what kind of file is it?", name)
		}
		for _, u := range elsewhere.FindAllString(text, -1) {
			if u != "http://www.w3.org/2000/svg" {
				t.Errorf("%s: asks for %s", name, u)
			}
		}
		if m := markup.FindString(text); m != "" {
			t.Errorf("%s: %s makes markup or code of a string", name, m)
		}
		if m := inline.FindString(text); m != "" && strings.HasSuffix(name, ".html") {
			t.Errorf("%s: the policy forbids %s", name, m)
		}
	}
	t.Logf("%d files, %d bytes when compressed", len(assets), size)
	if size > 100<<10 {
		t.Errorf("the pages are %d bytes when compressed", size)
	}
}

// luminance is that of WCAG 2.2, of a colour #rgb or #rrggbb.
func luminance(t *testing.T, c string) float64 {
	t.Helper()
	if len(c) == 4 {
		c = "#" + strings.Repeat(c[1:2], 2) + strings.Repeat(c[2:3], 2) + strings.Repeat(c[3:4], 2)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n := strings.Index("0123456789abcdef", c[1+2*i:2+2*i])*16 + strings.Index("0123456789abcdef", c[2+2*i:3+2*i])
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

// TestContrast: text has 4.5:1 and lines 3:1 in both themes, as WCAG 2.2 AA asks.
func TestContrast(t *testing.T) {
	t.Parallel()
	css := string(assets["style.css"].plain)
	blocks := regexp.MustCompile(`(?s):root(\[data-theme="dark"\])? \{(.*?)\n\}`).FindAllStringSubmatch(css, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d themes", len(blocks))
	}
	for _, b := range blocks {
		colour := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{3,6})[;\s]`).FindAllStringSubmatch(b[2], -1) {
			colour[m[1]] = m[2]
		}
		for _, p := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "bg", 4.5}, {"ink", "card", 4.5}, {"ink", "sea", 4.5}, {"ink", "land", 4.5}, {"dim", "bg", 4.5}, {"dim", "card", 4.5},
			{"link", "card", 4.5}, {"on-main", "main", 4.5}, {"ink", "bad-bg", 4.5}, {"ink", "warn-bg", 4.5}, {"bad", "card", 4.5},
			{"warn", "warn-bg", 4.5}, {"bad", "bad-bg", 4.5}, {"link", "bg", 4.5},
			{"rtt1", "sea", 3}, {"rtt2", "sea", 3}, {"rtt3", "sea", 3}, {"rtt4", "sea", 3}, {"move", "sea", 3}, {"well", "card", 3},
		} {
			f, ok1 := colour[p.front]
			g, ok2 := colour[p.back]
			if !ok1 || !ok2 {
				t.Fatalf("no colour %s or %s", p.front, p.back)
			}
			a, c := luminance(t, f), luminance(t, g)
			if r := (max(a, c) + 0.05) / (min(a, c) + 0.05); r < p.least {
				t.Errorf("theme%s: %s on %s: %.2f, less than %.1f", b[1], p.front, p.back, r, p.least)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{"eu-west-1": "eu-west-1", "prod-eu-west-1": "eu-west-1", "us-east-1b": "us-east-1",
		"AWS/us-west-2": "us-west-2", "europe-west1": "europe-west1", "europe-west1-c": "europe-west1"} {
		p, ok := byName(region)
		if w, known := wellKnown[want]; !ok || !known || p != w {
			t.Errorf("%s: %v %v, want the place of %s", region, p, ok, want)
		}
	}
	for _, region := range []string{"", "-", "region-a", "xeu-west-1x", "<script>"} {
		if p, ok := byName(region); ok {
			t.Errorf("%q is at %v", region, p)
		}
	}
	for name, p := range wellKnown {
		if math.Abs(p.Lat) > 70 || math.Abs(p.Lon) > 180 || p.Lat == 0 && p.Lon == 0 {
			t.Errorf("%s is at %v", name, p)
		}
	}
	given, err := ParsePlaces(" moon 10 -20.5 ; eu-west-1 1 2;; ")
	if err != nil || len(given) != 2 || given["moon"].Lon != -20.5 {
		t.Errorf("%v %v", given, err)
	}
	at := locate([]string{"eu-west-1", "moon", "x", "y", "x"}, given)
	if len(at) != 4 || at["eu-west-1"].Lat != 1 || !at["moon"].Known || at["x"].Known || at["x"] == at["y"] {
		t.Errorf("%v", at)
	}
	for _, bad := range []string{"a", "a 1", "a 1 2 3", "a x 1", "a 91 0", "a 0 181", "a NaN 0", "a Inf 0", strings.Repeat("a 1 1;", 1) + "b",
		manyPlaces(maxPlaces + 1)} {
		if p, err := ParsePlaces(bad); err == nil {
			t.Errorf("%.30q: %v", bad, p)
		}
	}
}

func manyPlaces(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("r" + itoa(i) + " 1 1;")
	}
	return b.String()
}

func FuzzParsePlaces(f *testing.F) {
	f.Add("a 1 2; b 3 4")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParsePlaces(s)
		for name, p := range got {
			if err == nil && (name == "" || !(math.Abs(p.Lat) <= 90) || !(math.Abs(p.Lon) <= 180)) {
				t.Errorf("%q is at %v", name, p)
			}
		}
	})
}
