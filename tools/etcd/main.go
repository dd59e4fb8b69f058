// Command etcd is etcd itself, built from its Go module for `godwit bench peers`
// where no package of a current version is at hand: make etcd. It is a module of its
// own so that Godwit does not depend on it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
