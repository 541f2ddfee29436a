{ grafanaDashboards+:: { 'x.json': {} } }
