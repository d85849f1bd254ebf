# name: replaced-modules
# class: forging rewards
# description: Changes modules of the image that tests import, such as pytest and json.
# remedy: grade in a machine of its own, or install the tools of the tests into a new environment in test.sh

for folder in $(python_folders); do
    for name in pytest json pathlib subprocess re importlib $IMPORTS; do
        for file in $folder/$name.py $folder/$name/__init__.py; do
            [ ! -f $file ] || cat $F/forge.py >> $file
        done
        rm -rf $folder/__pycache__/$name.* $folder/$name/__pycache__/__init__.*
    done
done
