# name: compiled-modules
# class: forging rewards
# description: Leaves compiled code that Python believes without a look at its source.
# remedy: remove __pycache__ of the image in test.sh, or run Python with -X pycache_prefix in an empty folder

python3 - $(python_folders) "$W" <<END_OF_PROGRAM
import importlib.util, os, py_compile, sys
forgery = open("$F/forge.py").read()
for folder in sys.argv[1:]:
    for name in "pytest json pathlib subprocess re $IMPORTS".split():
        for path in (f"{folder}/{name}.py", f"{folder}/{name}/__init__.py"):
            try:
                source = open(path).read()
                open("$F/draft.py", "w").write(source + "\n" + forgery)
                py_compile.compile("$F/draft.py", importlib.util.cache_from_source(path), path, doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            except (OSError, SyntaxError, UnicodeDecodeError, py_compile.PyCompileError):
                pass
END_OF_PROGRAM
