# name: users-and-homes
# class: forging rewards
# description: Gives users another shell and another home, where start-up files wait.
# remedy: set HOME in test.sh, and let no test act as another user by a login shell

mkdir -p $F/home
for file in .bashrc .profile .bash_profile; do shell_forgery $F/home/$file; done
wrap $F/home/shell /bin/sh
echo $F/home/shell >> /etc/shells
sed -i "s|^\([^:]*:[^:]*:[0-9]*:[0-9]*:[^:]*\):[^:]*:.*|\1:$F/home:$F/home/shell|" /etc/passwd
