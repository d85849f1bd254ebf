#!/bin/bash
for number in 1 21 -4 1000; do
    [ "$(twice "$number")" = "$((number * 2))" ] || exit 1
done
exit 0
