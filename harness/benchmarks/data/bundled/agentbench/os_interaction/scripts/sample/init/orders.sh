#!/bin/bash
# The same orders every time: what is asked about them has one answer.
mkdir -p /srv/shop
for number in $(seq 1 240); do
    case $((number * 7 % 5)) in
        0) customer=Ines ;;
        1) customer=Omar ;;
        *) customer=Yuki ;;
    esac
    state=paid
    [ $((number % 4)) -eq 0 ] && state=open
    echo "$number;$customer;$state;$((number * 13 % 97))" >> /srv/shop/orders.csv
done
