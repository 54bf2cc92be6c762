#!/usr/bin/env bash
# shellcheck disable=SC2016  # nginx expands the variables in its rules
# Serves the pages' hosts from nginx on the loopback device of a network and mount namespace of its own, and runs a command there:
#
#   unshare --map-root-user --mount --net scripts/pages/sites.sh FOLDER CMD…
#
# FOLDER has node_modules, and gets nginx's files. The certificate is self-signed.
set -euo pipefail
folder=$(cd "$1" && pwd)
shift
modules=$folder/node_modules

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=sites \
  -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
mkdir -p "$folder/portal"
cp "$(dirname "$0")/portal.html" "$folder/portal/index.html"

hosts="127.0.0.1 localhost"
servers=
site() { # NAME ROOT [RULES]
  hosts+=$'\n'"127.0.0.1 $1"
  servers+="server { server_name $1; listen 443 ssl http2; root $2; ${3:-} }"$'\n'
}
family() { echo "if (\$args ~ ^family=$1) { rewrite ^ /$2/index.css break; }"; }

site www.example "$folder/portal"
for name in agency creative freelancer; do site "$name.example" "$modules/startbootstrap-$name/dist"; done
site business.example "$modules/startbootstrap-modern-business/dist"
site dashboard.example "$modules/@tabler/preview/dist"
# What the pages load from others.
site cdn.jsdelivr.net "$folder" 'rewrite ^/npm/([a-z-]+)@[0-9.]+/(.*)$ /node_modules/$1/$2 break;'
site cdnjs.cloudflare.com "$modules/simplelightbox/dist" \
  'rewrite ^/ajax/libs/SimpleLightbox/[0-9.]+/simpleLightbox(.*)$ /simple-lightbox$1 break;'
site use.fontawesome.com "$modules/@fortawesome/fontawesome-free" 'rewrite ^/releases/v[0-9.]+/(.*)$ /$1 break;'
fonts='montserrat|roboto-slab|lato|merriweather-sans|merriweather'
site fonts.googleapis.com "$modules/@fontsource" "rewrite ^/files/($fonts)-(.*)\$ /\$1/files/\$1-\$2 break;
  $(family Montserrat montserrat) $(family Roboto roboto-slab) $(family Lato lato)
  $(family Merriweather: merriweather) $(family 'Merriweather\+' merriweather-sans)"
site rsms.me "$modules/@fontsource/inter" \
  'rewrite ^/inter/inter.css$ /index.css break; rewrite ^/inter/files/(.*) /files/$1 break;'
site dummyimage.com "$folder" "default_type image/svg+xml; location / { return 200 \
  '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"350\"><rect width=\"600\" height=\"350\"/></svg>'; }"
site cdn.startbootstrap.com "$folder" 'default_type application/javascript; location / { return 200 "// forms"; }'

mkdir -p "$folder/nginx"
cat >"$folder/nginx.conf" <<END
user root;
worker_processes 1;
pid $folder/nginx/pid;
error_log $folder/nginx/error.log;
events { worker_connections 1024; }
http {
  include /etc/nginx/mime.types;
  access_log off;
  add_header access-control-allow-origin *;
  client_body_temp_path $folder/nginx/body;
  proxy_temp_path $folder/nginx/proxy;
  fastcgi_temp_path $folder/nginx/fastcgi;
  uwsgi_temp_path $folder/nginx/uwsgi;
  scgi_temp_path $folder/nginx/scgi;
  ssl_certificate $folder/cert.pem;
  ssl_certificate_key $folder/key.pem;
  gzip on;
  gzip_types text/css text/javascript application/javascript image/svg+xml;
  $servers
}
END
echo "$hosts" >"$folder/hosts"
ip link set lo up
mount --bind "$folder/hosts" /etc/hosts
nginx -c "$folder/nginx.conf" -p "$folder" 2>/dev/null
trap 'nginx -c "$folder/nginx.conf" -p "$folder" -s stop 2>/dev/null' EXIT
"$@"
