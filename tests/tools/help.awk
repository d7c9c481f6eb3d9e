# Prints the list of `make help` from the Makefile: a group for `##@`, and a target for `name: … ## text`. The lines
# `## NAME=default  text` below a target describe its variables. Only `make help FOR=name` prints them.
/^##@ / { add("\n" substr($0, 5)) }
/^[a-z0-9-]+:.* ## / {
    split($0, parts, ":")
    name = parts[1]
    about[name] = substr($0, index($0, " ## ") + 4)
    add(name)
}
/^## / {
    text = substr($0, 4)
    cut = index(text, "  ")
    variables[name] = variables[name] sprintf("    %-28s %s\n", substr(text, 1, cut - 1), substr(text, cut + 2))
}
function add(line) { lines[++count] = line }
function show(name, mark) { printf "  %-20s %s%s\n", name, about[name], mark }
END {
    if (only != "" && only in about) {
        show(only, "")
        printf "%s", variables[only]
        exit
    }
    if (only != "") {
        print "There is no target " only ". Run `make help` for the list."
        exit 1
    }
    print "usage: make TARGET [NAME=value ...]      * has variables: make help FOR=TARGET"
    for (line = 1; line <= count; line++) {
        name = lines[line]
        if (name in about) show(name, name in variables ? " *" : "")
        else print substr(name, 2)
    }
}
