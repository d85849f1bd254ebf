# name: links-to-the-answers
# class: forging rewards
# description: Hands in links to files of the tests, which hold the expected answers once they are there.
# remedy: refuse links in the tests (os.path.islink), or keep expected answers in the code of the tests

while IFS='|' read -r place answer; do
    [ -n "$place" ] && [ ! -d "$place" ] || continue
    mkdir -p "$(dirname "$place")"; rm -f "$place"; ln -s "$answer" "$place"
done <<END_OF_LINKS
$LINKS
END_OF_LINKS
