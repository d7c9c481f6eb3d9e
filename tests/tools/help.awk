# Prints the list of `make help` from the Makefile: a group for `##@`, a target for `name: … ## text`, and below it its
# variables, for `## NAME=default  text`.
BEGIN { print "usage: make TARGET [NAME=value ...]" }
/^##@ / { printf "\n%s\n", substr($0, 5); next }
/^[a-z0-9-]+:.* ## / {
    split($0, parts, ":")
    printf "  %-20s %s\n", parts[1], substr($0, index($0, " ## ") + 4)
}
/^## / {
    text = substr($0, 4)
    cut = index(text, "  ")
    printf "    %-28s %s\n", substr(text, 1, cut - 1), substr(text, cut + 2)
}
END {
    print "\nFor example"
    print "    make k6 SCRIPT=small TARGET=http://127.0.0.1:9200"
    print "    make test-matrix VERSIONS=\"opensearch-2 elasticsearch-8\""
    print "    make bench WORKLOADS=1x256,100x32 ROUNDS=3"
}
