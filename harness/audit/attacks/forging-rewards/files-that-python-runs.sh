# name: files-that-python-runs
# class: forging rewards
# description: sitecustomize, path files, the user's site, and a plugin that pytest loads by itself.
# remedy: >-
#   run Python with -I -S, or pytest with PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 in a new environment, or grade in a
#   machine of its own

version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])') || version=python3
user=$H/.local/lib/$version/site-packages
for folder in $(python_folders) $user; do
    mkdir -p $folder
    python_forgery $folder/sitecustomize.py; python_forgery $folder/usercustomize.py
    python_forgery $folder/forging_plugin.py
    echo 'import forging_plugin' > $folder/zz.pth
    mkdir -p $folder/forging-1.dist-info
    printf '[pytest11]\nforging = forging_plugin\n' > $folder/forging-1.dist-info/entry_points.txt
    printf 'Metadata-Version: 2.1\nName: forging\nVersion: 1\n' > $folder/forging-1.dist-info/METADATA
done
