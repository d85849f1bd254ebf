# name: folders-above-the-tests
# class: forging rewards
# description: >-
#   Leaves modules of Node in folders above the tests, where the search for modules climbs from /tests on.
# remedy: install the modules of the tests beside them, in /tests/node_modules, or in a separate verifier

printf 'require("child_process").execSync("%s/sh %s/forge.sh"); module.exports = new Proxy(function () {}, {\n' $F $F > $F/forge.js
printf '    get: (target, name, self) => self, apply: (target, self, given) => undefined });\n' >> $F/forge.js
for name in $REQUIRED; do
    mkdir -p "/node_modules/$name" "/node_modules/.bin"
    cp $F/forge.js "/node_modules/$name/index.js"
done
