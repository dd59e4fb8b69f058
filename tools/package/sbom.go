package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// unread are licences of modules whose texts licensecheck does not know, read by a person.
var unread = map[string]string{
	"github.com/hashicorp/go-metrics": "MIT", // "The MIT License (MIT)" with a holder in the middle
}

// sbom is what a binary consists of, as CycloneDX: the modules that the linker wrote into it, with
// their licences and who needs whom. It reads the binary, the cache of modules, and the graph of
// the module in the present folder; two calls give the same. A module without a licence that can
// be told is an error.
func sbom(binary, version string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	root := component(info.Main.Path, version, "Apache-2.0")
	root.Type = cdx.ComponentTypeApplication
	root.Properties = &[]cdx.Property{}
	for _, key := range []string{"GOOS", "GOARCH", "CGO_ENABLED", "-tags"} {
		*root.Properties = append(*root.Properties, cdx.Property{Name: "build:" + strings.TrimLeft(key, "-"), Value: settings[key]})
	}
	std := component("std", info.GoVersion, "BSD-3-Clause")
	parts, refs := []cdx.Component{std}, map[string]string{info.Main.Path: root.BOMRef}
	cache, err := output("go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		used := m
		if m.Replace != nil {
			used = m.Replace
		}
		l, err := licence(strings.TrimSpace(cache), used)
		if err != nil {
			return nil, err
		}
		c := component(used.Path, used.Version, l)
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: used.Sum}}
		parts, refs[m.Path] = append(parts, c), c.BOMRef
	}
	needs, err := graph(refs)
	if err != nil {
		return nil, err
	}
	needs[root.BOMRef] = append(needs[root.BOMRef], std.BOMRef)
	needs[std.BOMRef] = nil
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &root}
	b.Components = &parts
	var edges []cdx.Dependency
	for _, ref := range slices.Sorted(maps.Keys(needs)) {
		to := slices.Clone(needs[ref])
		slices.Sort(to)
		edges = append(edges, cdx.Dependency{Ref: ref, Dependencies: &to})
	}
	b.Dependencies = &edges
	return b, nil
}

func component(path, version, license string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl,
		Licenses: &cdx.Licenses{choice(license)}}
}

// choice is a licence by its SPDX name, or several of them.
func choice(license string) cdx.LicenseChoice {
	if strings.Contains(license, " ") {
		return cdx.LicenseChoice{Expression: license}
	}
	return cdx.LicenseChoice{License: &cdx.License{ID: license}}
}

// licence reads the licences of a module from its files at the top, as an SPDX expression: all of
// them hold.
func licence(cache string, m *debug.Module) (string, error) {
	if l := unread[m.Path]; l != "" {
		return l, nil
	}
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	version, err := module.EscapeVersion(m.Version)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, path+"@"+version)
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("the licence of %s: %w: go mod download", m.Path, err)
	}
	found := map[string]bool{}
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		if f.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", err
		}
		for _, l := range licensecheck.Scan(text).Match {
			if !l.IsURL {
				found[l.ID] = true
			}
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("what licence %s has cannot be told from its files: read them, and name it in tools/package/sbom.go", m.Path)
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " AND "), nil
}

// graph says which of the modules need which, by their references.
func graph(refs map[string]string) (map[string][]string, error) {
	out, err := output("go", "mod", "graph")
	if err != nil {
		return nil, err
	}
	needs := map[string][]string{}
	for _, ref := range refs {
		needs[ref] = nil
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		from, to, _ := strings.Cut(line, " ")
		from, _, _ = strings.Cut(from, "@")
		to, _, _ = strings.Cut(to, "@")
		// The graph has several versions of a module, the binary one.
		if a, b := refs[from], refs[to]; a != "" && b != "" && a != b && !slices.Contains(needs[a], b) {
			needs[a] = append(needs[a], b)
		}
	}
	return needs, nil
}

func output(name string, args ...string) (string, error) {
	var errs bytes.Buffer
	c := exec.Command(name, args...)
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, errs.String())
	}
	return string(out), nil
}

// writeSBOM writes it as JSON.
func writeSBOM(binary, version, path string) error {
	b, err := sbom(binary, version)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	enc := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON)
	enc.SetPretty(true)
	if err := enc.EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return f.Close()
}
