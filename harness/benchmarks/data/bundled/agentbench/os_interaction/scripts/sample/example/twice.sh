cat > /usr/local/bin/twice <<'END'
#!/bin/bash
echo $(($1 * 2))
END
chmod 755 /usr/local/bin/twice
