module github.com/godwitdb/godwit

go 1.26.2

require (
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10
	google.golang.org/protobuf v1.36.12
)
