# Copies Debian's Python, its loader and its libraries to /opt/harness/python, where they work in any file tree.
set -eu

folder=/opt/harness/python
mkdir -p $folder/bin $folder/lib
# A runtime gives the mode of the folder to the tmpfs that it mounts there.
mkdir -m 1777 /opt/harness/attempt
cp -L /usr/bin/python3 $folder/bin/python3.bin
# Programs of agents start this one, and find it as their interpreter again. The variables of an image that are
# meant for its own Python do not count.
cat > $folder/bin/python3 <<END
#!/bin/sh
exec $folder/loader --inhibit-cache --library-path $folder/lib --argv0 "\$0" $folder/bin/python3.bin -E "\$@"
END
chmod 755 $folder/bin/python3
modules=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')
cp -R "$modules" $folder/lib/
cd "$folder/lib/$(basename "$modules")"
rm -rf ensurepip idlelib lib2to3 pydoc_data test tkinter turtledemo EXTERNALLY-MANAGED
# Compiled here, so that no start pays for that.
python3 -m compileall -q -f --invalidation-mode unchecked-hash .

# Each library that the interpreter or a module of it is linked with, and the loader.
for file in /usr/bin/python3 lib-dynload/*.so; do ldd "$file"; done |
  sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r library; do cp -L "$library" $folder/lib/; done
cp -L /lib*/ld-linux*.so.* $folder/loader
# Modules of agents are linked with these.
cp -L /lib/*/libgcc_s.so.1 /usr/lib/*/libstdc++.so.6 $folder/lib/

# Copied last, because the engine copies a folder in the order of its names: a volume without this file is broken.
touch /opt/harness/z-complete
