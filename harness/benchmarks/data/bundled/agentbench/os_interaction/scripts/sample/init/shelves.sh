#!/bin/bash
mkdir -p /root/shelves/{north,south}/{top,bottom}
for shelf in /root/shelves/*/*; do
    echo "plain label" > "$shelf/card.txt"
done
echo "the copper lamp" > /root/shelves/south/top/card.txt
touch /root/shelves/north/bottom/.spare
